// A decoder's weights, fused so that a layer makes four matrix products.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/quantization.h"
#include "model/ops.h"

namespace kvc {

// What the model is loaded as.
struct LoadOptions {
  at::ScalarType dtype = at::kFloat;             // of weights and matrix products: Float, Half, BFloat16
  Quantization quantization = {};                // of the layers' matrices and what they read
  std::vector<at::Device> devices = {at::kCPU};  // each takes an equal run of layers, in order
};

// E experts in the place of an MLP.
struct Experts {
  Linear router;             // [E, hidden]
  std::vector<Linear> up;    // each [2F, hidden]: gate, then up
  std::vector<Linear> down;  // each [hidden, F]
};

// Norms that the model does not have are undefined.
struct DecoderLayer {
  Norm attention_norm;         // [hidden]: of what attention reads; of the sum with its output where that is normed
  Linear qkv;                  // [(H_q + 2 H_kv) * D, hidden]: q, then k, then v
  at::Tensor q_norm;           // [D] fp32, or [H_q * D] of all heads as one vector, or undefined
  at::Tensor k_norm;           // [D] or [H_kv * D] fp32, or undefined
  at::Tensor sinks;            // [H_q] fp32, or undefined
  Linear output;               // [hidden, H_q * D]
  Norm attention_output_norm;  // [hidden]
  Norm mlp_norm;               // [hidden]
  Linear up;                   // [2 * intermediate, hidden]: gate, then up; without a gate [intermediate, hidden]
  Linear down;                 // [hidden, intermediate]
  Experts experts;             // in the place of up and down, or empty
  Norm mlp_output_norm;        // [hidden]

  // f(linear) for each of its matrices.
  template <class F>
  void for_each_linear(const F& f) {
    f(qkv), f(output);
    if (is_defined(up)) f(up), f(down);
    for (size_t e = 0; e < experts.up.size(); ++e) f(experts.up[e]), f(experts.down[e]);
  }
};

inline constexpr int64_t kUnusedPositions = 2;  // rows before position 0's in a learned table

struct Weights {
  at::ScalarType type = at::kFloat;  // of what goes through the layers
  Linear embedding;                  // [V, E], E being hidden unless there is project_in
  Linear project_in;                 // [hidden, E], or undefined
  at::Tensor positions;              // [kUnusedPositions + max_position_embeddings, hidden], or undefined
  std::vector<DecoderLayer> layers;
  Norm final_norm;     // [hidden], or undefined
  Linear project_out;  // [E, hidden], or undefined
  Linear logits;       // [V, E]; shares the embedding's memory where they are tied

  int64_t bytes() const;
};

// Matrices and their biases in the options' type, norms in fp32, each tensor moved to its device before the next is
// read. A matrix that the file holds in blocks keeps them on the CPU where the options do not quantize or smooth it.
// The embedding lies with the first layer, the output matrix with the last. Throws Error where a tensor is absent, has
// another shape, or is not known.
Weights load_weights(const std::filesystem::path& model, const ModelConfig& config, const LoadOptions& options);
// The same of an open source, called `name` in errors.
Weights load_weights(std::unique_ptr<TensorSource> source, const std::string& name, const ModelConfig& config,
                     const LoadOptions& options);

}  // namespace kvc
