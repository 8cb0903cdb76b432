// Attention of one query token on the compressed form, on its device:
//   scores over all parts of K -> softmax in fp32 per head -> weighted sum over all parts of V.
// Parts are summed: a chunk's score may come from its codes, its low-rank part and its outliers.
// The loops are in kernels/code_products.h, a GPU's in cuda/products.cuh; accumulation is fp32. The reference is
// LayerCache::attend.
// On a GPU parts are recorded, and computed when weights() or out() is called, with the same launches for all sequences
// of a batch. A part, and the data it refers to, must be alive until then.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kvc/layer_cache.h"
#include "kvc/quant/group_quant.h"
#include "kvc/quant/level_codes.h"
#include "kvc/quant/low_rank.h"
#include "kvc/quant/outliers.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {
namespace on_device {
class Step;
}

class RaggedTokens;

class KVC_EXPORT CompressedAttention {
 public:
  static constexpr int64_t kMostChannels = 1024;
  // Whether this path supports the query: one token, head_dim up to kMostChannels.
  static bool takes(const at::Tensor& q);

  // q: [H_q, 1, D]; n_tokens: the cache's length.
  CompressedAttention(const at::Tensor& q, double scale, const LayerInfo& info, int64_t n_tokens);

  // For the weighted sum alone, of given weights [H_q, T] fp32, which must not change until out().
  CompressedAttention(const at::Tensor& weights, const LayerInfo& info);

  // For a batch of sequences of one layer, q[b] with a cache of n_tokens[b]; results are written to out [B, H_q, D]
  // fp32.
  static std::vector<CompressedAttention> of_batch(std::span<const at::Tensor> q, double scale, const LayerInfo& info,
                                                   std::span<const int64_t> n_tokens, at::Tensor& out);

  // scores of the tokens from `first` on += q K^T
  void score(const GroupCodes& k, int64_t first);
  void score(const LevelCodes& k, int64_t first);
  void score(const LowRank& k, int64_t first);
  void score(const Outliers& k, int64_t first, int64_t n_tokens);  // of a chunk of n tokens; axis tokens or channels
  void score(const TokenBlocks& k, int64_t first);  // uncompressed tokens of each KV head, or of one head for all
  void score(const at::Tensor& k, int64_t first);   // the same, [H_kv or 1, n, D] contiguous
  void score(const StoredTokens& k, int64_t first);
  // Tokens that differ by KV head: right-aligned, ending at column first + k.longest(). The caller must mask the
  // columns before them (softmax).
  void score(const RaggedTokens& k, int64_t first);
  // Codes in another basis, with the query transformed to it: q [H_q, X] fp32 computed from q(); codes of X channels in
  // n_heads parts, which the query heads use in their order.
  void score(const at::Tensor& q, const GroupCodes& k, int64_t first);
  void add_scores(const at::Tensor& scores, int64_t first);  // [H_q, n] fp32, computed by the method from q()

  // With the layer's softcap and sinks.
  void softmax();                                   // tokens before the sliding window have weight 0
  void softmax(std::span<const int64_t> n_hidden);  // the first n_hidden[h] of KV head h have weight 0 instead
  const at::Tensor& weights() const;                // [H_q, T] fp32; scores before softmax()
  at::Tensor weights(int64_t first, int64_t n_tokens) const;  // of these tokens, a view

  // Accumulates: out += weights V
  void accumulate_v(const GroupCodes& v, int64_t first);  // axis channels only
  void accumulate_v(const LevelCodes& v, int64_t first);
  void accumulate_v(const LowRank& v, int64_t first);
  void accumulate_v(const Outliers& v, int64_t first);
  void accumulate_v(const TokenBlocks& v, int64_t first);
  void accumulate_v(const at::Tensor& v, int64_t first);
  void accumulate_v(const StoredTokens& v, int64_t first);
  void accumulate_v(const RaggedTokens& v, int64_t first);
  // Codes in another basis: sums [H_q, X] fp32 += weights V. Complete when then() calls f: immediately on the CPU, on a
  // device when out() is called.
  void accumulate_v(const GroupCodes& v, int64_t first, at::Tensor sums);
  void then(std::function<void()> f);
  // Codes [1, n_groups, n_words] of groups in this order over tokens [H, n, D] of these sizes; on a device only.
  void score(const GroupCodes& k, GroupOrder order, at::IntArrayRef sizes, int64_t first);
  void accumulate_v(const GroupCodes& v, GroupOrder order, at::IntArrayRef sizes, int64_t first);
  void add_out(const at::Tensor& out);  // [H_q, D] fp32, computed by the method

  const at::Tensor& q() const { return q_; }  // [H_q, D] fp32, times scale
  at::Tensor out() const;                     // [H_q, 1, D] fp32
  void run() const;                           // computes recorded parts now, so that temporary data may be freed

 private:
  CompressedAttention(const LayerInfo& info, int64_t group, int64_t n_tokens);
  void accumulate_into(at::Tensor& out, const GroupCodes& v, int64_t first) const;
  void accumulate_on_device(const LevelCodes& v, int64_t first);
  at::Tensor part_of_scores(int64_t first, int64_t n_tokens) const;

  int64_t n_kv_heads_, group_, head_dim_, n_tokens_;
  int64_t n_hidden_;                       // tokens before the sliding window
  double softcap_;                         // of LayerInfo
  at::Tensor sinks_;                       // [H_q] fp32, or undefined
  at::Tensor q_;                           // [H_q, D] fp32, times scale
  at::Tensor scores_;                      // [H_q, T] fp32; weights after softmax()
  at::Tensor out_;                         // [H_q, D] fp32
  std::shared_ptr<on_device::Step> step_;  // null on the CPU
};

}  // namespace kvc
