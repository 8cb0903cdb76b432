// Texts as the windows of tokens that a model reads.
#pragma once

#include "task/dataset.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// The ids that the tokenizer puts before a text (BOS), which begin every window.
std::vector<int64_t> window_begin(const Tokenizer& tokenizer);

// Replaces the samples, which are whole texts, by windows of likelihood.tokens tokens: those of window_begin(), then
// consecutive ones of a text. Without a stride one window begins where the one before it ends, text after text; what
// is left of a text after its last whole window is left out. With a stride, window i of a text begins i strides after
// the offset, and the texts are taken in turn. Throws Error where a window is longer than the model's context or than
// every text, or its prompt than max_prompt_tokens.
void cut_into_windows(const TaskSpec& spec, const Tokenizer& tokenizer, int64_t context,
                      const std::optional<int64_t>& max_prompt_tokens, Dataset& data);

}  // namespace kvc
