// A cache that attends to its parts in compressed form. The author lists the parts of K to score and the parts of V to
// accumulate; this serves one query token on the CPU and on a GPU, and on a GPU all caches of a batch together:
//   void read_k(kvc::CompressedAttention& attention) const override { attention.score(k_, 0); }
//   void read_v(kvc::CompressedAttention& attention) const override { attention.accumulate_v(v_, 0); }
// The compressor must be a kvc::PartsCompressor.
#pragma once

#include <cstdint>
#include <span>

#include "kvc/compressor.h"
#include "kvc/layer_cache.h"
#include "kvc/quant/compressed_attention.h"
#include "kvc/split_attention.h"

namespace kvc {

class KVC_EXPORT PartsCache : public LayerCache, public SplitAttention {
 public:
  // For more than one query token, and if has_parts() is false: LayerCache::attend.
  at::Tensor attend(const at::Tensor& q, double scale) const override;
  at::Tensor scores(const at::Tensor& q, double scale) const final;
  at::Tensor mix(const at::Tensor& weights) const final;

 protected:
  explicit PartsCache(const LayerInfo& info) : LayerCache(info) {}

  virtual void read_k(CompressedAttention& attention) const = 0;  // adds the scores of n_attended() tokens, each once
  virtual void read_v(CompressedAttention& attention) const = 0;  // accumulates the output over the same tokens
  virtual void apply_softmax(CompressedAttention& attention) const { attention.softmax(); }
  virtual int64_t n_attended() const { return length(); }
  virtual bool has_parts() const { return true; }
  // If K and V are stored in another basis: transform the query [H_q, 1, D] to it, and out [H_q, 1, D] fp32 back.
  virtual at::Tensor to_basis(const at::Tensor& q) const { return q; }
  virtual at::Tensor from_basis(const at::Tensor& out) const { return out; }

 private:
  friend class PartsCompressor;
};

// The compressor of PartsCaches (it may also make other caches).
class KVC_EXPORT PartsCompressor : public Compressor, public BatchedAttention {
 public:
  bool attends_together(at::Device device) const override { return !device.is_cpu(); }
  void attend_batch(std::span<const LayerCache* const> caches, std::span<const at::Tensor> q, double scale,
                    at::Tensor& out) const override;
};

}  // namespace kvc
