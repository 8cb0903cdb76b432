// A decoder's weights, fused so that a layer makes four matrix products.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <vector>

#include "model/model_config.h"

namespace kvc {

struct DecoderLayer {
  at::Tensor attention_norm;  // [hidden] fp32
  at::Tensor qkv;             // [(H_q + 2 H_kv) * D, hidden]: q, then k, then v
  at::Tensor output;          // [hidden, H_q * D]
  at::Tensor mlp_norm;        // [hidden] fp32
  at::Tensor gate_up;         // [2 * intermediate, hidden]: gate, then up
  at::Tensor down;            // [hidden, intermediate]
};

struct Weights {
  at::Tensor embedding;  // [V, hidden]
  std::vector<DecoderLayer> layers;
  at::Tensor final_norm;  // [hidden] fp32
  at::Tensor logits;      // [V, hidden]; the embedding itself where they are tied

  int64_t bytes() const;
};

// Matrices in `dtype`, norms in fp32. Throws Error where a tensor is absent, has another shape, or is not known.
Weights load_weights(const std::filesystem::path& dir, const ModelConfig& config, at::ScalarType dtype);

}  // namespace kvc
