// From experiments to a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/clusters.h"
#include "plan/plan.h"

namespace kvc {

struct PlanRequest {
  std::vector<std::string> files, settings;  // experiments, and what is put over each
  std::filesystem::path plan;                // file that it will be written to
  std::optional<int64_t> n_shards;           // or
  std::optional<double> hours;               // of one shard at most, as far as they are predicted
  std::string missing;                       // database: what it holds is not planned; "": nothing is there
  std::string pilot;                         // database with times of these models; "": that of `missing`, or a trial
  std::optional<Cluster> cluster;
};

// Shards that are to end within a time are filled to so much of it: predictions err.
inline constexpr double kFilled = 0.8;

// Reads the experiments as a run does, fetching and hashing their models; tasks that cannot be read are told on
// standard error. Throws Error: an experiment that is not of kind eval, nothing to run, a cell that no machine of the
// cluster has the memory for, hours without a known time.
Plan make_plan(const PlanRequest& request);

// Weights as the experiment's type holds them, K and V of its longest sequence times the batch as prefill holds them
// before any compressor, and room for workspace. bytes
int64_t predicted_bytes(int64_t weights, double kv_per_token, double n_tokens, int64_t batch_size);

}  // namespace kvc
