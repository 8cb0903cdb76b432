// GEAR's three-way sum for one tensor (K or V) of one chunk: X^ = D^ + L + S.
#pragma once

#include <kvc/quant/decode_step.h>

#include <vector>

namespace gear {

enum class Fill {
  masked,  // outliers take no part in their group's minimum and maximum
  zero,    // outliers are replaced by 0 before quantizing (the paper's X - S)
  mean,    // outliers are replaced by their vector's mean (the public code)
};

// How K or V of a chunk is encoded.
struct Format {
  kvc::GroupFormat groups;
  kvc::GroupAxis outlier_axis;  // tokens for K (per channel), channels for V (per token)
  double sparsity = 0;
  Fill fill = Fill::masked;
  int64_t loops = 3;
  kvc::Precision precision = kvc::Precision::real;
};

struct Chunk {
  kvc::GroupCodes codes;
  kvc::LowRank low_rank;
  kvc::Outliers outliers;

  at::Tensor dequantize() const;  // [H, T, D] fp32
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;
};

// S = outliers of x, D^ = Q(x - S), L = low rank of x - D^ - S. x: [H, T, D] fp32; rank 0: no low-rank part, and the
// generator is not touched.
Chunk encode(const at::Tensor& x, const Format& format, int64_t rank, at::Generator& generator);

}  // namespace gear
