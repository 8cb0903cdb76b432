// What a user tells of clusters in clusters.yaml: where jobs go, and which machines there are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/yaml_keys.h"

namespace kvc {

// Machines of one memory: of their GPU where cells run on one.
struct MachineClass {
  std::string name;
  int64_t bytes = 0;
  std::string constraint, gres, partition;  // "": none, or the cluster's
};

struct Cluster {
  std::string name;
  std::string partition, account, qos, time, memory;  // "": the cluster's own default; time as sbatch writes it
  int64_t seconds = 0;                                // of `time`; 0: none was given
  int64_t cpus = 1;
  int64_t max_array = 1001;                 // as `scontrol show config` says MaxArraySize: indexes end below it
  int64_t throttle = 0;                     // elements of an array that run at a time; 0: any number
  int64_t signal_seconds = 120;             // before the limit
  int64_t restarts = 3;                     // of one element
  std::vector<std::string> modules, lines;  // `module load` each; lines as they are, before kvc
  std::vector<MachineClass> classes;        // the smallest memory first; {}: machines are alike
};

// Of a cluster's keys, for the file and for a page of the docs.
void declare_keys(YamlKeys& keys, Cluster& cluster);

// The cluster of that name. Throws Error with file:line:column, or in one line where the file has no such cluster.
Cluster load_cluster(const std::filesystem::path& file, const std::string& name);

// The given file, or clusters.yaml here, or clusters.yaml in the user's folder of settings (~/.config/kvc).
std::filesystem::path clusters_file(const std::string& given);

// "90", "2:30", "24:00:00", "3-12", "3-12:00:00", as sbatch reads a time -> seconds; 0 where it is none of these.
int64_t parse_slurm_time(const std::string& text);

}  // namespace kvc
