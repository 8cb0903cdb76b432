// One shard of a plan, run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "plan/plan.h"

namespace kvc {

// Of `n` shards the number of one, from 0: by "I/N", or where that is empty by what the batch system has set:
// SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, PBS_ARRAY_INDEX, HQ_TASK_ID count from 0, SGE_TASK_ID and LSB_JOBINDEX
// from 1; KVC_SHARD_OFFSET is added. Throws Error with what was found and what is allowed.
size_t shard_of(const std::string& given, size_t n);

// How far a shard is: a small file beside its database, for whoever looks.
struct ShardState {
  std::string state;  // running, done, failed, stopped: to go on later
  std::string host;
  int64_t pid = 0;
  double started_at = 0, seen_at = 0;            // seconds since 1970
  int64_t n_done = 0, n_failed = 0, n_left = 0;  // samples of this start
  std::string message;                           // at what it is; or why it failed
};

struct ShardOutcome {
  int64_t n_run = 0, n_failed = 0, n_present = 0;  // samples
  int signal = 0;                                  // that ended it early; 0: none did
};

struct ShardRequest {
  size_t shard = 0;
  std::filesystem::path database;  // in the shared folder; "": the plan's own place
  std::string allow_plugins;
  bool verify = false;
};

// Runs what the shard's database lacks of its cells, in a file of this machine; brings it to the shared folder now and
// then, and in the end, whatever that is. Throws Error where an experiment is not any more what was planned.
ShardOutcome run_shard(const Plan& plan, const ShardRequest& request);

KVC_DECLARE_JSON(ShardState)

}  // namespace kvc
