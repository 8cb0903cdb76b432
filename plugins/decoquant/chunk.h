// One chunk of K or V as T_L, quantized, and T_S, at 16 bits: the merged matrix X [T, D_all] seen as [T * D_all/c, c]
// is
//   X = T_L T_S,  T_L [T * D_all/c, r],  T_S [r, c],  r = min(T * D_all/c, c).
#pragma once

#include <kvc/layer_cache.h>
#include <kvc/quant/decode_step.h>
#include <kvc/quant/group_quant.h>

#include <string>
#include <vector>

namespace decoquant {

enum class Form { icl, lm, svd, qr };

struct Format {
  Form form;
  int64_t bits;                  // of T_L; 16: not quantized
  std::vector<int64_t> factors;  // icl: T_S' output factors, c their product
  kvc::Precision precision;
};

struct Chunk {
  bool transposed = false;  // codes hold B^T [D_all, r] of X = A B, and small holds A; else codes hold A
  kvc::GroupCodes codes;    // [parts, T, D_all/c * r / parts], one step a row over all parts
  at::Tensor large;         // in their place where T_L is not quantized
  std::vector<at::Tensor> small;
  int64_t n_heads = 0, n_tokens = 0, head_dim = 0;

  at::Tensor dequantize() const;     // [H, T, D] fp32
  at::Tensor large_tensor() const;   // T_L's entries as they are held, fp32
  at::Tensor small_tensors() const;  // those of all of T_S, [|T_S|] fp32
  bool attends() const;              // whether score and weigh can be called
  void score(kvc::DecodeStep& step, int64_t first) const;
  void weigh(kvc::DecodeStep& step, int64_t first) const;
  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const;
};

// x: [H, T, D] fp32; in form icl c divides H * D.
Chunk encode(const at::Tensor& x, const Format& format);

}  // namespace decoquant
