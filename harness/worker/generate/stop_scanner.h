// Finds stop strings in a growing sequence of ids, across token borders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kvc {

class StopScanner {
 public:
  StopScanner(const Tokenizer& tokenizer, const std::vector<std::string>& stop_strings);

  // Whether the text of the ids holds a stop string, given that it did not without the last id.
  bool found_in(const std::vector<int64_t>& ids) const;

  // The text of the ids, special tokens skipped, cut before the first stop string.
  std::string cut(const std::vector<int64_t>& ids) const;

 private:
  const Tokenizer& tokenizer_;
  const std::vector<std::string>& stop_strings_;
  size_t tail_tokens_;  // a stop string that the last token completes begins at most this many tokens back
};

}  // namespace kvc
