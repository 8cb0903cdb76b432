// A plan as texts for Slurm. Nothing here talks to a batch system.
#pragma once

#include <map>
#include <string>

#include "plan/clusters.h"
#include "plan/plan.h"

namespace kvc {

// Where a plan's jobs find what they need, all absolute.
struct ScriptPlace {
  std::string program, plan;                       // kvc, and the plan's file
  std::string array_script;                        // that the submitting script hands to sbatch
  std::string merged;                              // database that the merge job writes
  std::map<std::string, std::string> environment;  // exported
  std::vector<std::string> fetched;                // models that are fetched once, before any array
};

// For sbatch: one element of an array, which runs one shard, passes the signal before the limit on, and puts itself
// back into the queue. time: a limit of each, as sbatch reads it; "": the cluster's.
std::string array_script(const Plan& plan, const ScriptPlace& place, const Cluster& cluster, const std::string& time);

// For the user: fetches the models, submits every array, split where it is longer than the cluster allows, and a job
// that merges the shards behind them all.
std::string submit_script(const Plan& plan, const ScriptPlace& place, const Cluster& cluster);

// As one word of a shell.
std::string shell_word(const std::string& text);

}  // namespace kvc
