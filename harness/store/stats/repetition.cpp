#include "stats/repetition.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace kvc {
namespace {

constexpr int64_t kLongestPeriod = 64, kFewest = 32;

}  // namespace

bool ends_in_loop(std::span<const int64_t> token_ids) {
  const auto n = static_cast<int64_t>(token_ids.size());
  for (int64_t period = 1; period <= kLongestPeriod; ++period) {
    const int64_t n_repeated = std::max(kFewest, 2 * period);
    if (n_repeated + period > n) return false;
    const auto last = token_ids.last(static_cast<size_t>(n_repeated));
    if (std::equal(last.begin(), last.end(), last.begin() - period)) return true;
  }
  return false;
}

bool ends_in_loop(std::string_view token_ids_json) {
  // Only the last three periods count: a table asks this of every sample, whose answers may be long.
  const char *const begin = token_ids_json.data(), *const end = begin + token_ids_json.size(), *at = end;
  for (int64_t n_commas = 0; at != begin && n_commas <= 3 * kLongestPeriod; --at) n_commas += at[-1] == ',';
  std::vector<int64_t> ids;
  while (at != end) {
    int64_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error == std::errc()) ids.push_back(id);
    at = error == std::errc() ? rest : at + 1;
  }
  return ends_in_loop(ids);
}

}  // namespace kvc
