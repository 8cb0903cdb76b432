// A cache whose KV heads keep different numbers of the prompt's tokens. The author says which:
//   class EveryHeadItsOwn final : public kvc::RaggedCache {
//     at::Tensor keeps(const kvc::NewTokens& prompt) const override { return prompt.v.norm(2, 2) > 1; }
//   };
// or, where that is known only later, gives no mask and then calls evict(mask) once, before the first decode step.
// What a head does not keep is not held, and for no head is anything held in its stead; every token after the prompt is
// held. Of KV head h, m_h prompt tokens, bytes per layer:
//   sum of m_h * (4 * D + 4 positions), + H_kv * 4 * D for each token after the prompt; Precision::exact: 8 * D
//   where the whole prompt stays: H_kv * 4 * D a token, and no positions
// An implementation that pads all heads to the longest would hold H_kv * max(m_h) * 4 * D: probes tell both.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/probed_parts.h"
#include "kvc/quant/parts_cache.h"
#include "kvc/quant/precision.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

// Tokens of which each head keeps as many as it wants, head by head.
class KVC_EXPORT RaggedTokens {
 public:
  explicit RaggedTokens(at::ScalarType type) : rows_(type, kWholeBlock) {}

  // Once: of x [H, T, D] what the mask kept [H, T] names.
  void take(const at::Tensor& x, const at::Tensor& kept);

  int64_t n_heads() const { return static_cast<int64_t>(counts_.size()); }
  int64_t count(int64_t head) const { return counts_[static_cast<size_t>(head)]; }
  int64_t longest() const;
  int64_t first_row(int64_t head) const;  // of rows()
  const at::Tensor& rows() const;         // [1, all heads' tokens, D]
  // x [1, all heads' entries, X], in rows()' order -> [H, longest, X]: `filler` before those of a head that keeps fewer
  at::Tensor padded(const at::Tensor& x, const at::Scalar& filler) const;
  at::Tensor all() const { return padded(rows_.all(), 0); }  // [H, longest, D] fp32
  void add_to(Footprint& bytes, CacheTensor tensor) const { rows_.add_to(bytes, tensor); }

 private:
  TokenBlocks rows_;
  std::vector<int64_t> counts_;
};

class KVC_EXPORT RaggedCache : public PartsCache, public ProbedParts {
 public:
  void append(const NewTokens& tokens) final;
  KeyValue dequantize() const final { return {k_.all(), v_.all()}; }  // zeros at positions -1
  at::Tensor positions() const final;
  int64_t length() const final { return length_; }
  int64_t n_encoded_tokens() const final { return n_evicted_; }  // those that not every KV head holds
  int64_t n_encoded_numbers() const final { return 0; }
  Footprint footprint() const override;

  // What each KV head holds: "kept_tokens" [H_kv]; bytes of K and V: "kv_ragged_bytes" [1] as it is, "kv_padded_bytes"
  // [1] with all heads as long as the longest.
  std::vector<ProbedPart> probed_parts() const final;

 protected:
  RaggedCache(const LayerInfo& info, Precision precision);

  // Which tokens of the prompt each KV head keeps: [H_kv, T] bool. Undefined: all of them.
  virtual at::Tensor keeps(const NewTokens& prompt) const = 0;

  // The same mask, of a prompt that stayed whole so far and is all that is held.
  void evict(const at::Tensor& kept);

 private:
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void soften(CompressedAttention& attention) const final;
  int64_t n_attended() const final;
  // K or V.
  struct Held {
    RaggedTokens prompt;  // without heads where the whole prompt stays
    TokenBlocks later;
    at::Tensor all() const;
    void add_to(Footprint& bytes, CacheTensor tensor) const;
  };

  void take_prompt(const at::Tensor& k, const at::Tensor& v, const at::Tensor& kept);
  std::vector<int64_t> n_hidden() const;

  Held k_, v_;
  at::Tensor kept_;  // [1, all heads' tokens, 1] int32: their positions
  int64_t length_ = 0, n_evicted_ = 0;
};

}  // namespace kvc
