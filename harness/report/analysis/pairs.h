// The same questions answered by two compressors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cell_groups.h"

namespace kvc {

struct AnswerPair {
  double score_a = 0, score_b = 0;  // 0 to 1
  int64_t n_new_tokens_a = 0, n_new_tokens_b = 0;
  bool at_limit_a = false, at_limit_b = false;  // the generation ended at the token limit, or at the context's end
  bool in_loop_a = false, in_loop_b = false;    // the generation ended in a repetition
  bool is_truncated = false;                    // the prompt lost tokens before it was read
  std::optional<int64_t> first_difference;      // position of the first token that differs; nothing: all are equal
};

// Samples without a partner that may stand beside them.
struct Unpaired {
  int64_t n_only_a = 0, n_only_b = 0;  // the other has not run the sample
  int64_t n_failed = 0;                // failed, or without the score, in one of both
  int64_t n_other_question = 0;        // prompt or gold answer differ
  int64_t n() const { return n_only_a + n_only_b + n_failed + n_other_question; }
};

struct PairedTask {
  std::string task, extractor;
  std::vector<AnswerPair> pairs;
  Unpaired unpaired;
};

// Pairs by sample number, equal prompt and equal gold answer, task by task; a task that only one of both has is there,
// unpaired. `extractor` names the score; "": the headline, which must be the same in both.
std::vector<PairedTask> read_pairs(Database& db_a, const CellGroup& a, Database& db_b, const CellGroup& b,
                                   const std::string& extractor);

}  // namespace kvc
