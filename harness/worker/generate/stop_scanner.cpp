#include "generate/stop_scanner.h"

#include <algorithm>
#include <span>

#include "text/find_any.h"

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
  if (find_any(tokenizer_.decode(tail, true), stop_strings_) == std::string::npos) return false;
  // The tail's start may read otherwise.
  return find_any(tokenizer_.answer(ids), stop_strings_) != std::string::npos;
}

std::string StopScanner::cut(const std::vector<int64_t>& ids) const {
  const auto text = tokenizer_.answer(ids);
  return text.substr(0, find_any(text, stop_strings_));
}

}  // namespace kvc
