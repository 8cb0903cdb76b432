// How far single tokens are from the reference: quantiles of the KL divergence, its maximum, top-1 flips.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/likelihood_table.h"

namespace kvc {

struct Tails {
  int64_t n_tokens = 0;  // 0: the database holds no single tokens
  // Of a token's KL, in nats. A quantile is known where at least ten tokens lie beyond it.
  std::optional<double> median, p90, p99, p999;
  double largest = 0;
  int64_t sample = 0, position = 0;  // of the largest: its window, and the token's position there
  std::string task, token;           // and the token's text
  int64_t n_flips = 0;               // tokens whose top-1 prediction is not the reference's
  double acceptance = 0;             // mean of sum(min(p, q))
};

// Over all scored tokens of the cells.
Tails tails_of(Database& db, const std::vector<std::string>& cell_keys);

// The columns of a table of tails, and a row of it.
std::vector<TableColumn> tail_columns();
std::vector<TableCell> tail_cells(const Tails& tails);
extern const char* const kTailsNote;

// One row per compressor and task.
Table tails_table(Database& db, const LikelihoodOptions& options);

}  // namespace kvc
