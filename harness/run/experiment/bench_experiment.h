// Experiments that take times and find limits: `kind: bench` and `kind: capacity`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/bench_subject.h"
#include "experiment/experiment.h"
#include "kvc/compressor.h"
#include "text/json.h"

namespace kvc {

struct CapacitySearch {
  int64_t limit_bytes = 0;                        // of tensors: weights, KV and workspace together
  int64_t n_prompt_tokens = 0, n_new_tokens = 0;  // of each sequence of a batch; a context's last tokens are new
  int64_t max_batch = 0, max_context = 0;         // no more is looked for; 0: this is not looked for
};

struct BenchExperiment {
  std::string name;
  RunKind kind = RunKind::bench;  // or capacity
  std::string database;           // where its rows go unless the command line says; "": results/<name>.sqlite
  std::filesystem::path folder;   // as in Experiment
  ConfigFile config;
  BenchSubject subject;
  std::filesystem::path model_path;      // of its model, as in Experiment
  nlohmann::json model_origin;           // the same
  std::vector<BenchPoint> points;        // of a bench
  int64_t n_repeats = 5, n_warmups = 1;  // of each point
  std::vector<CapacitySearch> searches;  // of a capacity: one for each limit
  std::vector<CompressorChoice> compressors;
  double patience = kDefaultPatience;  // as in Experiment
  std::vector<std::string> plugin_path;
  IsolationChoice isolation;
  std::string allow_plugins;  // as in Experiment
};

// The keys of its file, and of the experiment what they stand for.
void declare_keys(YamlKeys& keys, BenchExperiment& experiment);

// Throws Error in one line. Every point is a prompt length with a batch, the batch varying fastest.
BenchExperiment load_bench(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// "2GB", "500 MB", "1.5GiB" -> bytes; 0 where it is none of these.
int64_t parse_bytes(const std::string& text);

KVC_DECLARE_JSON(CapacitySearch)

}  // namespace kvc
