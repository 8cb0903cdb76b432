// A plan: cells of experiments dealt out to shards, each of which one process runs into a database of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/json.h"

namespace kvc {

struct PlannedExperiment {
  std::string file;                   // absolute
  std::vector<std::string> settings;  // put over it
  std::string name, model;            // model: as written
  double load_seconds = 0;            // assumed, for its model
};

struct PlannedCell {
  std::string key;
  size_t experiment = 0;  // of the plan's
  std::string task, compressor;
  int64_t n_samples = 0;           // that were missing when it was planned
  std::vector<int64_t> elsewhere;  // samples that were not
  bool is_baseline = false;
  std::optional<double> seconds;  // predicted: its answers; nothing where no time is known
  double prefill_seconds = 0;     // of its task's prompts, which all cells of the task in a shard share
  int64_t bytes = 0;              // of memory
};

// An array of a batch system: the shards [first, first + n), all for one class of machines.
struct PlannedArray {
  std::string memory_class;  // "": there are no classes
  size_t first = 0, n = 0;
};

struct Plan {
  int64_t format = 1;
  std::string name;
  std::string folder;  // absolute; shards' databases, states and logs
  std::string cluster;
  std::vector<PlannedExperiment> experiments;
  std::vector<PlannedCell> cells;
  std::vector<std::vector<size_t>> shards;  // cells in the order that they run in
  std::vector<PlannedArray> arrays;
  std::vector<std::string> predicted_by;  // for each experiment, in words

  std::filesystem::path database_of(size_t shard) const;
  std::filesystem::path state_of(size_t shard) const;
  std::filesystem::path log_of(size_t shard) const;
};

// Throws Error in one line: no plan, another format, a cell that is nowhere or in two shards.
Plan load_plan(const std::filesystem::path& path);
void write_plan(const Plan& plan, const std::filesystem::path& path);

KVC_DECLARE_JSON(PlannedExperiment)
KVC_DECLARE_JSON(PlannedCell)
KVC_DECLARE_JSON(PlannedArray)
KVC_DECLARE_JSON(Plan)

}  // namespace kvc
