// A worker's answer against what the parent knows without it. Plugins share the worker's process: what they write in
// its place is no result.
#pragma once

#include <vector>

#include "experiment/grid.h"
#include "tokenizer/tokenizer.h"
#include "wire/messages.h"

namespace kvc {

// What is known of one answer before it comes.
struct AnswerFacts {
  const Grid& grid;
  const Tokenizer& tokenizer;
  const CellRecord& compressor;  // its part of a cell
  double seconds = 0;            // since the job was given: nothing of it took longer
};

// Throws Error with the first contradiction, "n_prompt_tokens is 5, expected 812": counts of tokens, the text and why
// it ended, 16-bit bytes, sums of parts, bytes below those of uncompressed values, values that are not finite. An
// answer that says why there is none contradicts nothing.
void check_answer(const Job& job, const JobResult& result, const AnswerFacts& facts);

}  // namespace kvc
