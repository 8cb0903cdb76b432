// Attention of one new token of each sequence of a batch to what its cache holds, on tensor cores, codes read as they
// are stored: a launch (or few) for all sequences and KV heads, whatever their lengths. Plain C++; the kernels are in
// attend_codes.cuh. Pointers are the device's, but for spans. Nothing is added by atomics, and a sequence's bits depend
// on its own sizes alone, not on the batch it is in.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/products.h"

namespace kvc::cuda_attend {

using cuda_products::Matrix;

// Tokens whose K and V are two parts of a cache; all of them if n_tokens is K's and V's.
struct Segment {
  Matrix k, v;       // of all KV heads, with n_tokens tokens or more
  int n_tokens = 0;  // of them
  int n_hidden = 0;  // the first tokens, which have weight 0
  // Null, or [H_q, n_tokens], rows scores_stride apart: what other parts of K (low rank, outliers) give, to which
  // codes' scores are added; the sums are written back for other parts of V, -1e30 where a token is hidden.
  float* scores = nullptr;
  int64_t scores_stride = 0;
};

// A softmax over some tokens: the largest score, and the sum of e^(score - largest).
struct Norm {
  float largest, sum;
};

struct Sequence {
  std::span<const Segment> segments;
  const float* q = nullptr;  // [H_q, D], times the attention's scale
  // Null, or what attention to the sequence's other tokens gave, computed elsewhere: [H_q, D] and [H_q].
  const float* other_out = nullptr;
  const Norm* other_norms = nullptr;
  const float* sinks = nullptr;  // null, or [H_q]: logits that only add to the sum; other_norms have them already
  // The norms are of all tokens, the segments' too (by the scores written back), and other_out has the weights of that
  // softmax.
  bool norms_of_all = false;
  float* out = nullptr;   // [H_q, D]: attention to all of them, zeros where all weights are 0
  Norm* norms = nullptr;  // null, or [H_q]: its softmax
};

// Of all sequences. Query heads of one KV head stand together.
struct AttentionShape {
  int n_query, n_kv, dim;
  int group() const { return n_query / n_kv; }
};

// Whether a segment of these may be attended to. K and V have one format (K of 2 or 4 bits may lie along tokens), fp16
// scales up to 1023 and no levels but code - centre; query heads are taken in eights or sixteens, however many.
bool serves(const Matrix& k, const Matrix& v);

// A split is some of a segment's visible tokens that one block attends to: 512, or more where there are over 32 of
// them.
constexpr int kSplitTokens = 512, kMostSplits = 32;
constexpr int split_tokens(int n_tokens) {
  const int splits = (n_tokens + kSplitTokens - 1) / kSplitTokens;
  return kSplitTokens * (splits > kMostSplits ? (splits + kMostSplits - 1) / kMostSplits : 1);
}
constexpr int first_token(const Segment& segment) { return segment.n_hidden / kSplitTokens * kSplitTokens; }
constexpr int n_splits(const Segment& segment) {
  if (segment.n_tokens <= 0) return 0;
  const int n = segment.n_tokens - first_token(segment), each = split_tokens(n);
  return n <= 0 ? 1 : (n + each - 1) / each;  // one to write the scores of hidden tokens
}

int64_t workspace_floats(std::span<const Sequence> batch, const AttentionShape& heads);

// The kernels of one device. `stream` is a cudaStream_t; workspace: workspace_floats(), 8 divides its address.
struct Kernels {
  void (*attend)(std::span<const Sequence> batch, const AttentionShape& heads, float* workspace, void* stream);
  void (*join)(std::span<const Sequence> batch, const AttentionShape& heads, const float* workspace, void* stream);
};

}  // namespace kvc::cuda_attend

namespace kvc::cuda {
const cuda_attend::Kernels& attend_kernels();  // where nvcc compiled them (KVC_HAVE_CUDA)
}
namespace kvc::cuda_emulated {
const cuda_attend::Kernels& attend_kernels();
}
