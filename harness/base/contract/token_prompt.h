// A prompt as token ids, and what is read after it: from the sample to the generator.
#pragma once

#include <cstdint>
#include <vector>

namespace kvc {

struct TokenPrompt {
  std::vector<int64_t> prompt_ids = {};
  // Scored, token by token through the caches; none: the prompt is answered.
  std::vector<std::vector<int64_t>> continuations = {};
  int64_t n_given = 0;            // of each continuation's first ids: read through the caches, but not scored
  int64_t n_question_tokens = 0;  // of prompt_ids, the last: not prefilled, but read one by one through the caches
  int64_t n_shared_tokens = 0;    // of prompt_ids, the first: as many as later prompts are likely to begin with
};

}  // namespace kvc
