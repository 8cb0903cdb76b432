// One chunk of K or V as T_L, quantized, and T_S, at 16 bits or quantized, too: the merged matrix X [T, D_all] seen as
// [T * D_all/c, c] is
//   X = T_L T_S,  T_L [T * D_all/c, r],  T_S [r, c],  r = min(T * D_all/c, c).
#pragma once

#include <kvc/layer_cache.h>
#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/group_quant.h>

#include <string>
#include <vector>

namespace decoquant {

enum class Form { icl, lm, svd, qr };

struct Format {
  Form form;
  int64_t bits, small_bits;      // of T_L and T_S; 16: not quantized
  std::vector<int64_t> factors;  // icl: T_S' output factors, c their product
  kvc::Precision precision;
};

// One tensor of T_S, [r, f, r'].
struct SmallTensor {
  at::Tensor exact;       // at 16 bits
  kvc::GroupCodes codes;  // else [1, r, f * r'], one step a row r
  std::vector<int64_t> shape;

  at::Tensor values() const;  // as they are held
};

struct Chunk {
  bool transposed = false;  // codes hold B^T [D_all, r] of X = A B, and small holds A; else codes hold A
  kvc::GroupCodes codes;    // [parts, T, D_all/c * r / parts], one step a row over all parts
  at::Tensor large;         // in their place where T_L is not quantized
  std::vector<SmallTensor> small;
  int64_t n_heads = 0, n_tokens = 0, head_dim = 0;

  at::Tensor dequantize() const;     // [H, T, D] fp32
  at::Tensor right() const;          // [r, c] fp32: T_S multiplied out
  at::Tensor large_tensor() const;   // T_L's entries as they are held, fp32
  at::Tensor small_tensors() const;  // those of all of T_S, [|T_S|] fp32
  bool attends() const;              // whether score and accumulate_v can be called
  void score(kvc::CompressedAttention& attention, int64_t first) const;
  void accumulate_v(kvc::CompressedAttention& attention, int64_t first) const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;
};

// x: [H, T, D] fp32; in form icl c divides H * D.
Chunk encode(const at::Tensor& x, const Format& format);

}  // namespace decoquant
