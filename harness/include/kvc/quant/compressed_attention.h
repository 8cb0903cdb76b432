// Attention of one query token on the compressed form, on the device that holds it:
//   scores over all parts of K -> one softmax in fp32 a head -> weighted sum over all parts of V.
// Parts add up: a chunk may be scored by its codes, its low-rank part and its outliers.
// The loops are in kernels/code_products.h, a GPU's in cuda/products.cuh; accumulation is fp32. The oracle is
// LayerCache::attend.
// On a device parts are recorded, and read when weights() or out() is asked for: those of all sequences of a batch by
// the same launches. A part, and what it points to, must be there until then.
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
  // Whether this path takes such a query: one token, head_dim up to 1024.
  static bool takes(const at::Tensor& q);

  // q: [H_q, 1, D]; n_tokens: the cache's length.
  CompressedAttention(const at::Tensor& q, double scale, const LayerInfo& info, int64_t n_tokens);

  // Of a batch of sequences of one layer, q[b] with a cache of n_tokens[b]; out [B, H_q, D] fp32 holds what they give.
  static std::vector<CompressedAttention> of_batch(std::span<const at::Tensor> q, double scale, const LayerInfo& info,
                                                   std::span<const int64_t> n_tokens, at::Tensor& out);

  // scores of tokens first ... += q K^T
  void score(const GroupCodes& k, int64_t first);
  void score(const LevelCodes& k, int64_t first);
  void score(const LowRank& k, int64_t first);
  void score(const Outliers& k, int64_t first, int64_t n_tokens);  // of a chunk of n; axis tokens or channels
  void score(const TokenBlocks& k, int64_t first);  // exact tokens of each KV head, or of one head that all read
  void score(const at::Tensor& k, int64_t first);   // the same, [H_kv or 1, n, D] contiguous
  // Each KV head's own tokens: they end with column first + k.longest(), and what is before them is for the caller to
  // hide (softmax).
  void score(const RaggedTokens& k, int64_t first);
  // Codes of another basis, with the query taken there: q [H_q, X] fp32 from q(), codes of X channels in n_heads
  // parts that the query heads share in their order.
  void score(const at::Tensor& q, const GroupCodes& k, int64_t first);
  void add_scores(const at::Tensor& scores, int64_t first);  // [H_q, n] fp32, what a method computed from q() itself

  void softmax();                                             // tokens before the sliding window weigh nothing
  void softmax(std::span<const int64_t> n_hidden);            // the first so many of each KV head weigh nothing instead
  const at::Tensor& weights() const;                          // [H_q, T] fp32; scores before softmax()
  at::Tensor weights(int64_t first, int64_t n_tokens) const;  // of these tokens, a view

  // out += weights V
  void weigh(const GroupCodes& v, int64_t first);  // axis channels only
  void weigh(const LevelCodes& v, int64_t first);
  void weigh(const LowRank& v, int64_t first);
  void weigh(const Outliers& v, int64_t first);
  void weigh(const TokenBlocks& v, int64_t first);
  void weigh(const at::Tensor& v, int64_t first);
  void weigh(const RaggedTokens& v, int64_t first);
  // Codes of another basis: sums [H_q, X] fp32 += weights V there. They are there when then() runs f: at once on the
  // CPU, on a device when out() is asked for.
  void weigh(const GroupCodes& v, int64_t first, at::Tensor sums);
  void then(std::function<void()> f);
  // Codes [1, n_groups, n_words] of groups that lie in this order over tokens [H, n, D] of such sizes; on a device.
  void score(const GroupCodes& k, GroupOrder order, at::IntArrayRef sizes, int64_t first);
  void weigh(const GroupCodes& v, GroupOrder order, at::IntArrayRef sizes, int64_t first);
  void add_out(const at::Tensor& out);  // [H_q, D] fp32, what a method computed itself

  const at::Tensor& q() const { return q_; }  // [H_q, D] fp32, times scale
  at::Tensor out() const;                     // [H_q, 1, D] fp32
  void run() const;                           // reads now what is recorded: what is read anew for it may go afterwards

 private:
  CompressedAttention(const LayerInfo& info, int64_t group, int64_t n_tokens);
  void weigh_into(at::Tensor& out, const GroupCodes& v, int64_t first) const;
  void weigh_on_device(const LevelCodes& v, int64_t first);
  at::Tensor part_of_scores(int64_t first, int64_t n_tokens) const;

  int64_t n_kv_heads_, group_, head_dim_, n_tokens_;
  int64_t n_hidden_;                       // tokens before the sliding window
  at::Tensor q_;                           // [H_q, D] fp32, times scale
  at::Tensor scores_;                      // [H_q, T] fp32; weights after softmax()
  at::Tensor out_;                         // [H_q, D] fp32
  std::shared_ptr<on_device::Step> step_;  // null on the CPU
};

}  // namespace kvc
