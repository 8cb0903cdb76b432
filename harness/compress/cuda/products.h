// Products of one new token's queries with caches' parts as caches hold them (kvc/quant), on a device: what
// CompressedAttention adds up there. Plain C++; the kernels are in products.cuh.
//   score_*        scores[i, t] += q[i] . x^[i / group, t]            for each query head i
//   accumulate_*   part[i] = sum over t of weights[i, t] x^[i / group, t]
// A launch reads the parts of many caches, whatever their lengths, as long as they are of one Loop. Pointers are the
// device's, but for tables that are passed by value. Sums are in fp32 and in an order that depends on a part's sizes
// alone, not on what is read beside it: nothing is added by atomics.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>

#include "kvc/quant/stored_numbers.h"

namespace kvc::cuda_products {

// What a stored number stands for, before its scale.
enum class Kind : int {
  level,  // levels[code], of 1 to 4 bits, one after another in a row
  byte,   // code - centre, of 8 bits
  e4m3,   // a float of 8 bits
  e5m2,   // another
  f16,    // itself, as are those below
  bf16,
  f32,
};

// Heads of rows of numbers, each head_bytes after the one before (0: one head that all read).
struct Matrix {
  NumberArray rows;  // bytes
  int64_t head_bytes = 0, row_bytes = 0;
  Kind kind = Kind::f32;
  int bits = 32;
  float centre = 0;
  std::array<float, 16> levels = {};
  int n_heads = 0, n_tokens = 0, n_channels = 0;
  // x^ = scale * number + zero: pairs of each head, n_groups a row. Kinds from f16 on have none.
  NumberArray scale, zero;
  int64_t head_scales = 0;  // from one head's to the next one's; 0: the same for all heads
  bool one_scale = false;   // one pair for a head's rows
  int n_groups = 1, group_size = 1;
  // None: a group lies in one token or channel. Otherwise each group is a row of codes of its own, with one scale and
  // zero.
  std::optional<GroupOrder> order;
  bool rows_are_channels =
      false;            // groups along tokens, words, scales and zeros in tiles of 16 (kvc/quant/group_quant.h)
  int first_token = 0;  // with that: tokens before it are there and not read
};

// Numbers of the query heads, whose rows are stride apart.
struct QueryRows {
  float* data;
  int64_t stride;
  int n, width;  // heads; numbers of each that a product may touch
};

// A few exact entries of each vector (kvc/quant/outliers.h).
struct Entries {
  NumberArray values, index;  // of index: n bytes
  bool of_channels;           // vectors are channels, whose entries are tokens; or the other way round
  bool wide;                  // index is u16, not u8
  int per_vector, n_vectors;
  int n_kv_heads, head_dim;
};

// What parts must have in common for one launch.
struct Loop {
  int bits;
  bool rows_are_channels, spread;
  int n_heads, group;
  auto operator<=>(const Loop&) const = default;
};
inline Loop loop_of(const Matrix& x, int n_query_heads) {
  return {x.bits, x.rows_are_channels, x.order.has_value(), x.n_heads, n_query_heads / x.n_heads};
}

constexpr int kSplitTokens = 512;  // that one block accumulates
constexpr int n_splits(int n_tokens) { return (n_tokens + kSplitTokens - 1) / kSplitTokens; }

struct Score {
  Matrix k;
  QueryRows q, scores;
};
struct AccumulateV {
  Matrix v;
  QueryRows weights;
  float* parts;  // [n_splits(v.n_tokens), weights.n, v.n_channels], written
};
struct ScoreEntries {
  Entries k;
  QueryRows q, scores;
};
struct AccumulateEntries {
  Entries v;
  QueryRows weights;
  float* parts;  // [n_parts(v), weights.n, v.head_dim], written
};
inline int n_parts(const Entries& v) { return v.of_channels ? 1 : n_splits(v.n_vectors); }
struct Softmax {
  QueryRows scores;
  int n_hidden;                  // the first ones, which have weight 0
  float softcap = 0;             // c: scores become c * tanh(score / c) first; 0: none
  const float* sinks = nullptr;  // null, or [n]: logits that only add to the sum
  float* norms = nullptr;        // null, or [n, 2]: the largest score or sink, and the sum of e^(score - largest)
};
struct Sum {
  const float* parts;
  float* out;  // out[i] += parts[0][i] + parts[1][i] + ..
  int n_parts, n;
};

// The kernels of one device. `stream` is a cudaStream_t. What is passed in one call adds to different numbers.
struct Kernels {
  void (*score)(std::span<const Score>, void* stream);  // of one Loop
  void (*accumulate_v)(std::span<const AccumulateV>, void* stream);
  void (*score_entries)(std::span<const ScoreEntries>, void* stream);  // of as many query heads
  void (*accumulate_entries)(std::span<const AccumulateEntries>, void* stream);
  void (*softmax)(std::span<const Softmax>, void* stream);
  void (*sum)(std::span<const Sum>, void* stream);
};

}  // namespace kvc::cuda_products

namespace kvc::cuda {
const cuda_products::Kernels& product_kernels();  // where nvcc compiled them (KVC_HAVE_CUDA)
}
namespace kvc::cuda_emulated {
const cuda_products::Kernels& product_kernels();
}
