// Ids back to text, one by one, as a model generates them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace kvc {

// All that it returns, joined, is Tokenizer::decode of all ids; each part is valid UTF-8. What may still change is held
// back: a character's first bytes, a run of byte tokens, a space that the end of the text drops. An id costs no more
// for the ids before it. The tokenizer must outlive it.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);

  std::string add(int64_t id);  // the text that is final now; throws Error on a negative id, or where
                                // the steps make a text out of all proportion
  std::string finish();         // the rest; nothing may be added afterwards

 private:
  std::string pass_(std::vector<std::string> tokens, size_t first_step);

  const Tokenizer& tokenizer_;
  const bool skip_special_tokens_;
  size_t n_bytes_ = 0;  // of the tokens added
  std::vector<std::unique_ptr<DecodeStep>> steps_;
};

}  // namespace kvc
