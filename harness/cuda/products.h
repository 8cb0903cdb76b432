// Products of one new token's queries with a cache's parts as caches hold them (kvc/quant), on a device: what
// CompressedAttention adds up there. Plain C++; the kernels are in products.cuh.
//   score_*   scores[i, t] += q[i] . x^[i / group, t]            for each query head i
//   weigh_*   out[i] += sum over t of weights[i, t] x^[i / group, t]
// Pointers are the device's, but for tables that are passed by value. Sums are in fp32 and in an order that depends on
// the sizes alone: nothing is added by atomics.
#pragma once

#include <array>
#include <cstdint>

namespace kvc::cuda_products {

enum class Number : int { f32, f16, bf16, e8m0, e4m3 };  // e8m0: 2^(byte - 127); e4m3: kvc/quant/small_floats.h

struct Array {
  const void* data = nullptr;  // null: zeros
  Number type = Number::f32;
  int64_t n = 0;
};

// What a stored number stands for, before its scale.
enum class Kind : int {
  level,  // levels[code], of 1 to 4 bits, one after another in a row
  byte,   // code - centre, of 8 bits
  e4m3,   // a float of 8 bits
  f16,    // itself, as are those below
  bf16,
  f32,
};

// Which group entry e = (head * n_tokens + token) * n_channels + channel belongs to, and where in it, where groups do
// not lie in one token or channel; each group is a row of codes of its own, with one pair of sides.
enum class Spread : int {
  none,     // they do
  flat,     // e / group_size, e % group_size
  strided,  // e % n_groups, e / n_groups
  rows,     // of channel c, token after token through all heads, group_size of them
};

// Heads of rows of numbers, each head_bytes after the one before (0: one head that all read).
struct Matrix {
  Array rows;  // bytes
  int64_t head_bytes = 0, row_bytes = 0;
  Kind kind = Kind::f32;
  int bits = 32;
  float centre = 0;
  std::array<float, 16> levels = {};
  int n_heads = 0, n_tokens = 0, n_channels = 0;
  // x^ = scale * number + zero: pairs of each head, n_groups a row. Kinds from f16 on have none.
  Array scale, zero;
  int64_t head_sides = 0;  // from one head's to the next one's; 0: the same for all heads
  bool one_side = false;   // one pair for a head's rows
  int n_groups = 1, group_size = 1;
  Spread spread = Spread::none;
  bool rows_are_channels = false;  // groups along tokens, words and sides in tiles of 16 (kvc/quant/group_quant.h)
};

// Numbers of the query heads, whose rows are stride apart.
struct Heads {
  float* data;
  int64_t stride;
  int n, width;  // heads; numbers of each that a product may touch
};

// A few exact entries of each vector (kvc/quant/outliers.h).
struct Entries {
  Array values, index;  // of index: n bytes
  bool wide;            // u16, not u8
  int per_vector, n_vectors;
  int n_kv_heads, head_dim;
};

// The kernels of one device. `stream` is a cudaStream_t; parts: floats that weigh_* may use.
struct Kernels {
  void (*score)(const Matrix& k, const Heads& q, const Heads& scores, void* stream);
  void (*weigh)(const Matrix& v, const Heads& weights, const Heads& out, float* parts, void* stream);
  void (*score_channel_entries)(const Entries& k, const Heads& q, const Heads& scores, void* stream);
  void (*weigh_channel_entries)(const Entries& v, const Heads& weights, const Heads& out, void* stream);
  void (*score_token_entries)(const Entries& k, const Heads& q, const Heads& scores, void* stream);
  void (*weigh_token_entries)(const Entries& v, const Heads& weights, const Heads& out, float* parts, void* stream);
  // Each head's softmax; of KV head h the first n_hidden[h] weigh nothing. Heads of one KV head stand together.
  void (*softmax)(const Heads& scores, const int* n_hidden, int n_kv_heads, void* stream);
};

constexpr int kMostKvHeads = 256;  // of a softmax

constexpr int kSplitTokens = 512;  // that one block weighs
constexpr int n_splits(int n_tokens) { return (n_tokens + kSplitTokens - 1) / kSplitTokens; }

}  // namespace kvc::cuda_products

namespace kvc::cuda {
const cuda_products::Kernels& product_kernels();  // where nvcc compiled them (KVC_HAVE_CUDA)
}
namespace kvc::cuda_emulated {
const cuda_products::Kernels& product_kernels();
}
