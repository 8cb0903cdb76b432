// A cache that attends to its parts as they are held. The author writes which parts of K are scored and which of V are
// weighed; one query token is served on the CPU and on a device, and on a device the caches of a batch together:
//   void read_k(kvc::CompressedAttention& attention) const override { attention.score(k_, 0); }
//   void read_v(kvc::CompressedAttention& attention) const override { attention.weigh(v_, 0); }
// with a compressor that is a kvc::PartsCompressor.
#pragma once

#include <cstdint>
#include <span>

#include "kvc/compressor.h"
#include "kvc/layer_cache.h"
#include "kvc/quant/compressed_attention.h"

namespace kvc {

class KVC_EXPORT PartsCache : public LayerCache {
 public:
  // Other shapes than one query token, and caches that cannot be read by parts, take LayerCache's way.
  at::Tensor attend(const at::Tensor& q, double scale) const override;

 protected:
  explicit PartsCache(const LayerInfo& info) : LayerCache(info) {}

  virtual void read_k(CompressedAttention& attention) const = 0;  // scores of n_attended() tokens, each once
  virtual void read_v(CompressedAttention& attention) const = 0;  // weights to out, each token once
  virtual void soften(CompressedAttention& attention) const { attention.softmax(); }
  virtual int64_t n_attended() const { return length(); }
  virtual bool has_parts() const { return true; }
  // Where K and V are held in another basis: the query [H_q, 1, D] there, and out [H_q, 1, D] fp32 from there.
  virtual at::Tensor to_basis(const at::Tensor& q) const { return q; }
  virtual at::Tensor from_basis(const at::Tensor& out) const { return out; }

 private:
  friend class PartsCompressor;
};

// What makes PartsCaches, or most of the time.
class KVC_EXPORT PartsCompressor : public Compressor, public BatchedAttention {
 public:
  bool attends_together(at::Device device) const override { return !device.is_cpu(); }
  void attend_batch(std::span<const LayerCache* const> caches, std::span<const at::Tensor> q, double scale,
                    at::Tensor& out) const override;
};

}  // namespace kvc
