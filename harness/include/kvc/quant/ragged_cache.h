// A cache whose KV heads keep different numbers of the prompt's tokens. The author selects them:
//   class EveryHeadItsOwn final : public kvc::RaggedCache {
//     at::Tensor keeps(const kvc::NewTokens& prompt) const override { return prompt.v.norm(2, 2) > 1; }
//   };
// or, if the selection is known only later, returns no mask and calls evict(mask) once, before the first decode step.
// Tokens that a head drops are not stored, and there is no padding; every token after the prompt is stored. With m_h
// prompt tokens of KV head h, bytes per layer:
//   sum of m_h * (4 * D + 4 positions), + H_kv * 4 * D for each token after the prompt; Precision::exact: 8 * D
//   if the whole prompt is kept: H_kv * 4 * D per token, and no positions
// An implementation that pads all heads to the longest would need H_kv * max(m_h) * 4 * D; probes report both.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/probed_parts.h"
#include "kvc/quant/parts_cache.h"
#include "kvc/quant/precision.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

// Tokens of which each head keeps a different number, stored head by head.
class KVC_EXPORT RaggedTokens {
 public:
  explicit RaggedTokens(at::ScalarType type) : rows_(type, kWholeBlock) {}

  // Stores the tokens of x [H, T, D] selected by the mask kept [H, T]. Called once.
  void take(const at::Tensor& x, const at::Tensor& kept);

  int64_t n_heads() const { return static_cast<int64_t>(counts_.size()); }
  int64_t count(int64_t head) const { return counts_[static_cast<size_t>(head)]; }
  int64_t longest() const;
  int64_t first_row(int64_t head) const;  // index into rows()
  const at::Tensor& rows() const;         // [1, all heads' tokens, D]
  // x [1, all heads' entries, X], in rows()' order -> [H, longest, X]: left-padded with `filler`
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
  int64_t n_encoded_tokens() const final { return n_evicted_; }  // tokens that some KV head dropped
  int64_t n_encoded_numbers() const final { return 0; }
  Footprint footprint() const override;

  // "kept_tokens" [H_kv]: tokens stored per KV head; bytes of K and V: "kv_ragged_bytes" [1] as stored,
  // "kv_padded_bytes" [1] if all heads were padded to the longest.
  std::vector<ProbedPart> probed_parts() const final;

 protected:
  RaggedCache(const LayerInfo& info, Precision precision);

  // Which tokens of the prompt each KV head keeps: [H_kv, T] bool. Undefined: all of them.
  virtual at::Tensor keeps(const NewTokens& prompt) const = 0;

  // Applies such a mask to a prompt that was kept whole so far, before any other token.
  void evict(const at::Tensor& kept);

 private:
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void apply_softmax(CompressedAttention& attention) const final;
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
