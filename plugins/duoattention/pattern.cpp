#include "pattern.h"

#include <kvc/check.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>

namespace duoattention {
namespace {

constexpr size_t kMostBytes = 1 << 20;  // of a pattern's file

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  KVC_CHECK(!in.bad() && (in || in.eof()), "duoattention: ", file, " cannot be read");
  text.resize(static_cast<size_t>(in.gcount()));
  KVC_CHECK(text.size() <= kMostBytes, "duoattention: ", file, " has more than ", kMostBytes, " bytes");
  return text;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::vector<double> numbers_of(const char* at, const char* end, const std::string& place) {
  std::vector<double> numbers;
  while (true) {
    while (at < end && is_blank(*at)) ++at;
    if (at == end) return numbers;
    double value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    KVC_CHECK(error == std::errc() && std::isfinite(value) && (next == end || is_blank(*next)), place, ": column ",
              numbers.size() + 1, " is not a number, expected scores from 0 to 1, separated by tabs");
    numbers.push_back(std::clamp(value, 0.0, 1.0));
    at = next;
  }
}

}  // namespace

Scores read_scores(const std::string& file) {
  const auto text = content_of(file);
  Scores scores;
  for (size_t first = 0; first < text.size();) {
    const auto end = std::min(text.find('\n', first), text.size());
    const auto place = kvc::concat("duoattention: ", file, ":", scores.size() + 1);
    scores.push_back(numbers_of(text.data() + first, text.data() + end, place));
    KVC_CHECK(!scores.back().empty(), place, ": an empty line, expected a score for each KV head");
    KVC_CHECK(scores.back().size() == scores.front().size(), place, ": ", scores.back().size(),
              " scores, the first line has ", scores.front().size());
    first = end + 1;
  }
  KVC_CHECK(!scores.empty(), "duoattention: ", file, " is empty, expected a line for each layer");
  return scores;
}

Heads retrieval_by_sparsity(const Scores& scores, double sparsity) {
  std::vector<double> all;
  for (const auto& layer : scores) all.insert(all.end(), layer.begin(), layer.end());
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a] < all[b]; });
  const double share = std::ceil(sparsity * (static_cast<double>(all.size()) - 1));
  const size_t n_streaming = sparsity >= 1 ? all.size() : static_cast<size_t>(share);
  std::vector<bool> retrieval(all.size(), true);
  for (size_t i = 0; i < n_streaming; ++i) retrieval[order[i]] = false;
  Heads heads;
  size_t at = 0;
  for (const auto& layer : scores) {
    auto& row = heads.emplace_back();
    for (size_t h = 0; h < layer.size(); ++h) row.push_back(retrieval[at++]);
  }
  return heads;
}

Heads retrieval_by_threshold(const Scores& scores, double threshold) {
  Heads heads;
  for (const auto& layer : scores) {
    auto& row = heads.emplace_back();
    for (const double score : layer) row.push_back(score >= threshold);
  }
  return heads;
}

}  // namespace duoattention
