// What of a model is quantized beside its cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace kvc {

// Largest magnitude of each channel [hidden] fp32 of what the matrices behind a layer's two norms read, by layer.
struct InputMaxima {
  std::vector<at::Tensor> qkv, up;
};

struct Smoothing {
  double alpha = 0.5;
  InputMaxima maxima;
};

struct Quantization {
  int64_t weight_bits = 0;      // of the layers' matrices: 8, 4, 3, 2; 0: as the model's type says
  int64_t group_size = 0;       // columns that share a scale; 0: the whole row
  int64_t activation_bits = 0;  // of what these matrices read, token by token, 2 to 8; 0: none. Held in floats
  std::optional<Smoothing> smoothing;
};

// Codes of 8 bits are held in a byte, those of 4, 3 and 2 bits two in a byte: what narrower ones could save is not
// saved.
constexpr int64_t held_bits(int64_t bits) { return bits == 8 ? 8 : 4; }

}  // namespace kvc
