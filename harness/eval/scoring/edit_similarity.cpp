#include "scoring/edit_similarity.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace kvc {
namespace {

constexpr size_t kPopularFrom = 200;  // length of b from which characters in over 1 % of its places are left out

struct Range {
  size_t a_begin, a_end, b_begin, b_end;
};

struct Match {
  size_t a = 0, b = 0, size = 0;
};

// Ratcliff-Obershelp as difflib does it: the longest match, earliest in a and then in b, and what is left and right of
// it.
class SequenceMatcher {
 public:
  SequenceMatcher(std::u32string_view a, std::u32string_view b) : a_(a), b_(b), lengths_(b.size() + 1) {
    for (size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(j);
    if (b.size() < kPopularFrom) return;
    const size_t most = b.size() / 100 + 1;
    std::erase_if(places_, [&](const auto& entry) { return entry.second.size() > most; });
  }

  size_t n_matched() {
    size_t total = 0;
    std::vector<Range> todo = {{0, a_.size(), 0, b_.size()}};
    while (!todo.empty()) {
      const Range range = todo.back();
      todo.pop_back();
      const Match match = longest_match(range);
      if (match.size == 0) continue;
      total += match.size;
      const size_t a_end = match.a + match.size, b_end = match.b + match.size;
      if (range.a_begin < match.a && range.b_begin < match.b)
        todo.push_back({range.a_begin, match.a, range.b_begin, match.b});
      if (a_end < range.a_end && b_end < range.b_end) todo.push_back({a_end, range.a_end, b_end, range.b_end});
    }
    return total;
  }

 private:
  Match longest_match(const Range& range) {
    Match best{range.a_begin, range.b_begin, 0};
    ++row_;
    for (size_t i = range.a_begin; i < range.a_end; ++i, ++row_) {
      const auto found = places_.find(a_[i]);
      if (found == places_.end()) continue;
      const auto& places = found->second;
      // From right to left, so that what stands at j is still of the row above when j + 1 reads it.
      for (auto place = std::lower_bound(places.begin(), places.end(), range.b_end); place != places.begin();) {
        const size_t j = *--place;
        if (j < range.b_begin) break;
        const Run above = lengths_[j];
        const size_t k = (above.row == row_ - 1 ? above.length : 0) + 1;
        lengths_[j + 1] = {row_, k};
        if (k > best.size || (k == best.size && best.a == i + 1 - k)) best = {i + 1 - k, j + 1 - k, k};
      }
    }
    return extended(best, range);
  }

  // Popular characters start no match but prolong one.
  Match extended(Match match, const Range& range) const {
    while (match.a > range.a_begin && match.b > range.b_begin && a_[match.a - 1] == b_[match.b - 1]) {
      --match.a, --match.b, ++match.size;
    }
    while (match.a + match.size < range.a_end && match.b + match.size < range.b_end &&
           a_[match.a + match.size] == b_[match.b + match.size]) {
      ++match.size;
    }
    return match;
  }

  struct Run {
    uint64_t row = 0;   // in which `length` was set; any other row reads as 0
    size_t length = 0;  // of the match that ends before this place of b
  };

  std::u32string_view a_, b_;
  std::unordered_map<char32_t, std::vector<size_t>> places_;  // in b, ascending
  std::vector<Run> lengths_;
  uint64_t row_ = 1;
};

// Length of the longest common subsequence, 64 places of a at a time (Hyyrö 2004).
size_t common_subsequence(std::u32string_view a, std::u32string_view b) {
  const size_t n_blocks = (a.size() + 63) / 64;
  std::unordered_map<char32_t, std::vector<uint64_t>> masks;
  for (size_t i = 0; i < a.size(); ++i) {
    auto& mask = masks[a[i]];
    mask.resize(n_blocks);
    mask[i / 64] |= uint64_t{1} << (i % 64);
  }
  std::vector<uint64_t> state(n_blocks, ~uint64_t{0});
  for (const char32_t c : b) {
    const auto found = masks.find(c);
    if (found == masks.end()) continue;
    unsigned carry = 0;
    for (size_t k = 0; k < n_blocks; ++k) {
      const uint64_t v = state[k], u = v & found->second[k];
      const uint64_t sum = v + u, with_carry = sum + carry;
      carry = (sum < v) || (with_carry < sum);
      state[k] = with_carry | (v - u);
    }
  }
  size_t length = 0;
  for (size_t i = 0; i < a.size(); ++i) length += !(state[i / 64] >> (i % 64) & 1);
  return length;
}

}  // namespace

double difflib_ratio(std::u32string_view a, std::u32string_view b) {
  if (a.empty() && b.empty()) return 1;
  return 2.0 * static_cast<double>(SequenceMatcher(a, b).n_matched()) / static_cast<double>(a.size() + b.size());
}

double indel_ratio(std::u32string_view a, std::u32string_view b) {
  const size_t sum = a.size() + b.size();
  if (sum == 0) return 1;
  const size_t distance = sum - 2 * common_subsequence(a, b);
  return 1.0 - static_cast<double>(distance) / static_cast<double>(sum);
}

double percent_similarity(double (*ratio)(std::u32string_view, std::u32string_view), std::u32string_view a,
                          std::u32string_view b) {
  if (a == b) return 1;
  if (a.empty() || b.empty()) return 0;
  return std::nearbyint(100 * ratio(a, b)) / 100;
}

}  // namespace kvc
