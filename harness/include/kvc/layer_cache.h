// One layer's K and V of one sequence, in compressed form.
//
// Glossary of shapes, used everywhere:
//   H_q query heads, H_kv KV heads (GQA: H_q = G * H_kv, query head h reads KV head h / G), D head_dim,
//   T tokens, T_q query tokens of one call, merged = the [T, H_kv*D] matrix with channel index h*D + j.
//   K and V: [H_kv, T, D]; q: [H_q, T_q, D]. Keys are after RoPE.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <span>

#include "kvc/footprint.h"

namespace kvc {

enum class Holds : uint8_t { both, k, v };

// What scores are multiplied with where a model says nothing else: 1/sqrt(D).
inline double usual_attention_scale(int64_t head_dim) { return 1 / std::sqrt(static_cast<double>(head_dim)); }

// What a cache is made for.
struct LayerInfo {
  int64_t layer = 0;
  int64_t n_layers = 1;
  int64_t n_heads = 1;        // H_q
  int64_t n_kv_heads = 1;     // H_kv
  int64_t head_dim = 64;      // D
  uint64_t sequence_key = 0;  // names the sequence; randomness is keyed by (seed, sequence_key, layer, block)
  at::Device device = at::kCPU;
  // Radians per position that RoPE turned channels i and i + D/2 of the keys by, [D/2]; empty where keys have no RoPE.
  // Outlives the cache. A method that wants keys before RoPE turns them back.
  std::span<const float> rope_frequencies = {};
  int64_t sliding_window = 0;  // a query sees the last so many tokens, itself included; 0: all. A cache holds all.
  Holds holds = Holds::both;   // one tensor alone only where the plugin says that it splits (Capabilities)
  // Of the model's own attention: softmax(q k^T * scale). What a method ranks tokens with before attend() brings it.
  double attention_scale = usual_attention_scale(head_dim);

  bool holds_k() const { return holds != Holds::v; }
  bool holds_v() const { return holds != Holds::k; }
};

// Keys and values of the next tokens, and the queries that go with them.
struct NewTokens {
  at::Tensor q;  // [H_q, T, D] fp32, fp16 or bf16; may be undefined where no query exists (a bare K,V given by hand)
  at::Tensor k;  // [H_kv, T, D]
  at::Tensor v;  // [H_kv, T, D]
  int64_t first_position = 0;  // position of the first of the T tokens in the sequence
};

// The tensor that a cache does not hold is undefined.
struct KeyValue {
  at::Tensor k;  // [H_kv, T_kept, D] fp32
  at::Tensor v;  // [H_kv, T_kept, D] fp32
};

class KVC_EXPORT LayerCache {
 public:
  virtual ~LayerCache();

  // Takes the next tokens. The first call brings the whole prompt, each later one the tokens of a decode step.
  // The tensors are the caller's: never modified, and copied where they are kept, since they may be views of a buffer
  // that is soon overwritten. The one that the cache does not hold may be undefined. Throws Error on a shape that does
  // not fit or a value that is not finite.
  virtual void append(const NewTokens& tokens) = 0;

  // Attention of the last T_q positions over what is held: q [H_q, T_q, D] in the model's type (fp32, fp16 or bf16)
  // -> [H_q, T_q, D] fp32. scale: the model's is LayerInfo's.
  // Here: softmax in fp32 of causal attention over attended(), within the sliding window. Overrides compute the same
  // on the compressed form; this path is their oracle and takes every shape they do not. Never asked of one tensor.
  virtual at::Tensor attend(const at::Tensor& q, double scale) const;

  // The nearest floats to the K and V given that what is held allows: what errors of K and V are taken of.
  virtual KeyValue dequantize() const = 0;

  // The keys and values whose plain causal attention is this cache's attention; shapes and order as dequantize()'s.
  // Here: dequantize(). Another pair where scores come from an estimator of inner products, whose vectors are unbiased
  // and no nearest ones.
  virtual KeyValue attended() const;

  // [H_kv, T_kept] int64: the position of each kept token, ascending; -1 where a head keeps fewer.
  // Here: 0 ... length()-1 for every head.
  virtual at::Tensor positions() const;

  virtual int64_t length() const = 0;            // tokens appended so far
  virtual int64_t n_encoded_tokens() const = 0;  // of these, held in lossy form or evicted; 0 proves nothing ran
  // Numbers of K and V that are held in lossy form; what is evicted is not held. Here: those of the encoded tokens that
  // positions() still has. Another count where K and V do not keep step.
  virtual int64_t n_encoded_numbers() const;
  virtual Footprint footprint() const = 0;

 protected:
  explicit LayerCache(const LayerInfo& info) : info_(info) {}
  // Throws unless those of k and v that are held are [H_kv, T, D], T >= 1, finite, and continue at length().
  void check_new_tokens(const NewTokens& tokens) const;
  const LayerInfo& info() const { return info_; }
  int64_t numbers_of(int64_t n_tokens) const {  // that such a cache is given
    return n_tokens * info_.n_kv_heads * info_.head_dim * (int64_t{info_.holds_k()} + int64_t{info_.holds_v()});
  }

 private:
  LayerInfo info_;
};

// softmax(q k^T * scale) v in fp32, causal by position and within the sliding window (0: none); the last query stands
// at position length-1.
// q: [H_q, T_q, D], k and v: [H_kv, T_kept, D], positions: [H_kv, T_kept] int64 -> [H_q, T_q, D] fp32
KVC_EXPORT at::Tensor reference_attention(const at::Tensor& q, const KeyValue& kv, const at::Tensor& positions,
                                          int64_t length, double scale, int64_t sliding_window = 0);

}  // namespace kvc
