// One results database takes over the rows of another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/result_store.h"

namespace kvc {

// A row of `conflicts`, with its cell's names for people.
struct Conflict {
  std::string table, cell_key, plugin, task;
  int64_t sample = -1;      // -1: of no sample
  std::string row_key;      // the rest of the row's key as JSON
  std::string column;       // "": the whole row, which one side lacks
  std::string kept, other;  // as SQL writes values
};

struct ShardCounts {
  int64_t n_cells = 0;     // that the shard has
  int64_t n_new = 0;       // samples taken over
  int64_t n_replaced = 0;  // of these, in place of a failed try
  int64_t n_there = 0;     // samples that were there already
  int64_t n_conflicts = 0;
  std::vector<Conflict> conflicts;  // the first kMostNamed
};
inline constexpr int64_t kMostNamed = 20;

// One transaction. What is there stays: but a failed sample or size gives way to one that is not, n_samples grows, and
// an attempt that went on gets its end. Rows of a cell that the shard describes otherwise are left. Shards may come in
// any order and again. Columns that depend on machine and moment may differ; what else does is a conflict. Throws Error
// where the shard's rows do not hold together: nothing of it is taken then. See check_shard().
ShardCounts merge_shard(Database& out, const std::filesystem::path& shard);

}  // namespace kvc
