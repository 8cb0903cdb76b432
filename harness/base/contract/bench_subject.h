// What a bench runs on, and its points.
#pragma once

#include <cstdint>
#include <string>

#include "text/json.h"

namespace kvc {

// What runs: a whole model, or a single attention layer of random K, V and queries.
struct BenchSubject {
  std::string model;                                   // folder, .gguf file or name; "": a single layer
  std::string config;                                  // or a config.json, for random weights of its shape
  int64_t n_heads = 1, n_kv_heads = 1, head_dim = 64;  // of the single layer
  int64_t outlier_channels = 4;  // of each of its KV heads' keys: so many are outlier_factor as large
  double outlier_factor = 10;
  bool prefill = true;  // the layer's exact attention over the prompt is computed too
  std::string dtype = "fp32", weights = "dtype", device = "cpu";
  int64_t threads = 1;
  int64_t seed = 0;

  bool is_layer() const { return model.empty() && config.empty(); }
};

// Sequences of one length, decoded together.
struct BenchPoint {
  int64_t n_prompt_tokens = 0, n_new_tokens = 0, batch = 1;
};

KVC_DECLARE_JSON(BenchSubject)
KVC_DECLARE_JSON(BenchPoint)

}  // namespace kvc
