#include "generate/stop_scanner.h"

#include <algorithm>
#include <span>

namespace kvc {

StopScanner::StopScanner(const Tokenizer& tokenizer, const std::vector<std::string>& stop_strings)
    : tokenizer_(tokenizer), stop_strings_(stop_strings), tail_tokens_(0) {
  // Every token but a skipped special one brings at least one byte; a few more for those and for cut characters.
  constexpr size_t kSlackTokens = 8;
  for (const auto& stop : stop_strings) tail_tokens_ = std::max(tail_tokens_, stop.size() + kSlackTokens);
}

bool StopScanner::found_in(const std::vector<int64_t>& ids) const {
  if (stop_strings_.empty()) return false;
  const size_t n = std::min(tail_tokens_, ids.size());
  const auto tail = std::span(ids).last(n);
  if (first_stop(tokenizer_.decode(tail, true)) == std::string::npos) return false;
  return first_stop(tokenizer_.decode(ids, true)) != std::string::npos;  // the tail's start may read otherwise
}

std::string StopScanner::cut(const std::vector<int64_t>& ids) const {
  const auto text = tokenizer_.decode(ids, true);
  return text.substr(0, first_stop(text));
}

size_t StopScanner::first_stop(const std::string& text) const {
  size_t first = std::string::npos;
  for (const auto& stop : stop_strings_) first = std::min(first, text.find(stop));
  return first;
}

}  // namespace kvc
