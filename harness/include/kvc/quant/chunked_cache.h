// A cache of immutable chunks: new tokens wait uncompressed in a buffer of nb tokens; when it is full and the next
// token arrives, K and V are encoded together as a chunk. The prompt's first tokens, the largest multiple of
// prompt_unit, are one chunk; of a prompt that comes in parts, each part's with the tokens that wait.
// Bytes: those of the chunks, and 4 * H_kv * D (8 with Precision::exact) per token in the buffer.
#pragma once

#include <utility>
#include <vector>

#include "kvc/probed_parts.h"
#include "kvc/quant/corrected_codes.h"
#include "kvc/quant/parts_cache.h"

namespace kvc {

class KVC_EXPORT ChunkedCache : public PartsCache, public ProbedParts {
 public:
  void append(const NewTokens& tokens) final;
  KeyValue dequantize() const final;
  int64_t length() const final { return n_encoded_ + n_recent(); }
  int64_t n_encoded_tokens() const final { return n_encoded_; }
  Footprint footprint() const final;
  std::vector<ProbedPart> probed_parts() const final;  // k_mask, v_mask: S of the first chunk

 protected:
  ChunkedCache(const LayerInfo& info, int64_t buffer, int64_t prompt_unit, Precision precision);

  // K and V of a chunk, [H, T, D] floats of storage_type(precision); block: number of earlier chunks; prompt: whether
  // it is the prompt's chunk. A tensor that the cache does not store is undefined, and its result is ignored.
  virtual std::pair<CorrectedCodes, CorrectedCodes> encode(const at::Tensor& k, const at::Tensor& v, int64_t block,
                                                           bool prompt) const = 0;

 private:
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void flush(int64_t n_tokens, bool prompt);
  int64_t n_recent() const { return (info().holds_k() ? k_recent_ : v_recent_).n_tokens(); }

  int64_t buffer_, prompt_unit_;
  std::vector<CorrectedCodes> k_chunks_, v_chunks_;
  TokenBlocks k_recent_, v_recent_;
  int64_t n_encoded_ = 0, n_chunks_ = 0;
};

}  // namespace kvc
