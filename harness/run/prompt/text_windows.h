// Texts as the windows of tokens that a model reads.
#pragma once

#include "task/dataset.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// Puts windows of likelihood.tokens tokens, one behind the other, in place of the samples, which are whole texts; what
// is left of a text behind its last whole window is left out. A text is encoded once, with the special tokens that the
// tokenizer adds: one that begins a text begins its first window. Throws Error where a window is longer than the
// model's context or than every text, or its prompt than max_prompt_tokens.
void cut_into_windows(const TaskSpec& spec, const Tokenizer& tokenizer, int64_t context,
                      const std::optional<int64_t>& max_prompt_tokens, Dataset& data);

}  // namespace kvc
