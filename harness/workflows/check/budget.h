// kvc budget: which weights with which cache type lose least within one amount of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "render/table.h"
#include "stats/interval.h"

namespace kvc {

struct BudgetArguments {
  std::vector<std::string> models;  // the same model, its weights in several types
  std::string memory;               // "6GiB", for weights and KV cache together
  int64_t context = 0;              // tokens that the cache is sized for
  std::string config = "configs/budget.yaml", allow_plugins;
  std::vector<std::string> texts, settings, as;  // as of kvc check
};

struct BudgetRow {
  std::string model, compressor;
  double weights_bytes = 0, kv_bytes = 0;  // kv_bytes: measured, of `context` tokens
  double kl = 0;                           // of a token, in nats, from the reference
  std::optional<Interval> interval;        // interval_of_texts()
  bool is_reference = false, fits = false;
  bool is_on_front = false;  // no row is smaller and loses less
  double bytes() const { return weights_bytes + kv_bytes; }
};

struct BudgetReport {
  std::vector<BudgetRow> rows;  // by size
  int64_t recommended = -1;     // the row of lowest KL that fits; -1: none fits
  double memory_bytes = 0;
  int64_t context = 0, n_tokens = 0, n_windows = 0;
  int signal = 0;  // that ended it early
};

// The distributions of every model and compressor on the same tokens, against those of the model with the largest
// weights with its uncompressed cache. Throws Error for a single row, models of different tokens or vocabularies, and a
// context that a model does not have.
BudgetReport find_budget(const BudgetArguments& arguments);

Table budget_table(const BudgetReport& report);

// Marks the rows on the Pareto front and that fit, sorts by size, and chooses the recommended one.
void rank_budget(BudgetReport& report);

}  // namespace kvc
