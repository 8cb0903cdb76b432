// From a sample to the token ids that a model gets: the prompt cut to its limit, in its chat format, with what is to be
// scored behind it. `run` and `prompt` both go through here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/token_prompt.h"
#include "prompt/model_chat.h"
#include "task/dataset.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

// What decides about prompts beside the task itself.
struct PromptSettings {
  const std::optional<ChatTemplate>* chat = nullptr;
  std::string system_message;
  int64_t context = 0;                // tokens that the model holds
  std::optional<int64_t> max_tokens;  // the experiment's own limit
  bool question_after = false;        // the question is no part of what is compressed: its tokens are counted
};

struct EncodedPrompt {
  Prompt prompt;                // as the task's template gives it
  std::string text;             // as the model gets it, special tokens that the tokenizer adds left out
  std::vector<int64_t> ids;     // of a task that scores: the context's; of a window its prompt's
  int64_t n_tokens_before = 0;  // had nothing been cut
  // Where the settings ask for it, the ids from the first one on that holds any of the question's text: those before it
  // are the same had the text ended there.
  int64_t n_question_tokens = 0;
  std::vector<TokenPrompt> scored;   // the item's, then the content-free one's
  std::vector<std::string> choices;  // the texts scored
  std::vector<std::string> tokens;   // of a window, the text of each token scored
  const std::vector<int64_t>& prefilled() const { return scored.empty() ? ids : scored.front().prompt_ids; }
};

// Throws Error for a prompt that is too long and may not be cut, and where the question is to be kept apart for a task
// that does not say where it begins, and a prompt of which it is cut. Of a task that reads texts the sample is a
// window.
EncodedPrompt encode_prompt(const TaskSpec& spec, const Dataset& data, const Sample& sample, const Tokenizer& tokenizer,
                            const PromptSettings& settings);

// Throws Error for a task that does not say where its question begins.
void check_has_question(const TaskSpec& spec);

// Counts as encode_prompt() does. What it is given has to outlive it.
PromptGauge prompt_gauge(const Tokenizer& tokenizer, const PromptSettings& settings);

}  // namespace kvc
