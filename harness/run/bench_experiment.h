// Experiments that take times and find limits: `kind: bench` and `kind: capacity`.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvc/compressor.h"
#include "run/experiment.h"

namespace kvc {

// What runs: a whole model, or a single attention layer of random K, V and queries.
struct BenchSubject {
  std::string model;                                   // folder, .gguf file or name; "": a single layer
  std::string config;                                  // or a config.json, for random weights of its shape
  int64_t n_heads = 1, n_kv_heads = 1, head_dim = 64;  // of the single layer
  int64_t outlier_channels = 4;  // of each of its KV heads' keys: so many are outlier_factor as large
  double outlier_factor = 10;
  bool prefill = true;  // the layer's exact attention over the prompt is computed too
  std::string dtype = "fp32", weights = "dtype";
  int64_t threads = 1;
  int64_t seed = 0;

  bool is_layer() const { return model.empty() && config.empty(); }
};

// Sequences of one length, decoded together.
struct BenchPoint {
  int64_t n_prompt_tokens = 0, n_new_tokens = 0, batch = 1;
};

struct CapacitySearch {
  int64_t limit_bytes = 0;                        // of tensors: weights, KV and workspace together
  int64_t n_prompt_tokens = 0, n_new_tokens = 0;  // of each sequence of a batch; a context's last tokens are new
  int64_t max_batch = 0, max_context = 0;         // no more is looked for; 0: this is not looked for
};

struct BenchExperiment {
  std::string name;
  RunKind kind = RunKind::bench;  // or capacity
  std::string database;           // where its rows go unless the command line says; "": results/<name>.sqlite
  std::filesystem::path folder;
  ConfigFile config;
  BenchSubject subject;
  std::filesystem::path model_path;      // of its model, as in Experiment
  nlohmann::json model_origin;           // the same
  std::vector<BenchPoint> points;        // of a bench
  int64_t n_repeats = 5, n_warmups = 1;  // of each point
  std::vector<CapacitySearch> searches;  // of a capacity: one for each limit
  std::vector<CompressorChoice> compressors;
  std::vector<std::string> plugin_path;
};

// The keys of its file, and of the experiment what they stand for.
void declare_keys(YamlKeys& keys, BenchExperiment& experiment);

// Throws Error in one line. Every point is a prompt length with a batch, the batch varying fastest.
BenchExperiment load_bench(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// "2GB", "500 MB", "1.5GiB" -> bytes; 0 where it is none of these.
int64_t parse_bytes(const std::string& text);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchSubject, model, config, n_heads, n_kv_heads, head_dim, outlier_channels,
                                   outlier_factor, prefill, dtype, weights, threads, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BenchPoint, n_prompt_tokens, n_new_tokens, batch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CapacitySearch, limit_bytes, n_prompt_tokens, n_new_tokens, max_batch, max_context)

}  // namespace kvc
