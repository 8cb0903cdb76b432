// How far compressors' caches take a model from its reference on text, by position in the context.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "render/table.h"
#include "stats/interval.h"
#include "store/database.h"

namespace kvc {

struct LikelihoodOptions {
  std::string experiment = "all";        // a name, or "all"
  bool with_suspects = false;            // also cells marked suspect
  std::set<std::string> cell_keys = {};  // only these; none: all
  int64_t stretch = 0;                   // tokens of each stretch; 0: [0, 256), then powers of two
};

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // interval_of_texts()
};

// One compressor on one task, at the positions from `begin` to before `end`.
struct LikelihoodStretch {
  std::string cell_key, model_label, compressor, options, task;
  int64_t begin = 0, end = 0;  // or 0 and -1: all positions
  int64_t n_tokens = 0, n_blocks = 0, n_windows = 0;
  Estimate nll, kl, top1;         // of a token: nats, nats, share
  std::optional<Estimate> error;  // of a token's nll against the reference's own cell, where that has all blocks
  double kv_share = 0;            // bytes held at the samples' end, of the same tokens at 16 bits
};

// Cells in the order of their experiment, of each the stretches that hold a block's first token, then all. notes: cells
// left out as suspect.
std::vector<LikelihoodStretch> likelihood_stretches(Database& db, const LikelihoodOptions& options,
                                                    std::vector<std::string>& notes);

// The blocks of several cells together, at all positions; nothing is said of whose they are. n_blocks 0: there are
// none.
LikelihoodStretch pooled_likelihood(Database& db, const std::vector<std::string>& cell_keys);

Table likelihood_table(Database& db, const LikelihoodOptions& options);

}  // namespace kvc
