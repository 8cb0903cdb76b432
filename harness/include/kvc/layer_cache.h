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

// Default scale of attention scores, unless the model defines another: 1/sqrt(D).
inline double usual_attention_scale(int64_t head_dim) { return 1 / std::sqrt(static_cast<double>(head_dim)); }

// The model layer and sequence that a cache belongs to.
struct LayerInfo {
  int64_t layer = 0;
  int64_t n_layers = 1;
  int64_t n_heads = 1;        // H_q
  int64_t n_kv_heads = 1;     // H_kv
  int64_t head_dim = 64;      // D
  uint64_t sequence_key = 0;  // identifies the sequence; randomness is keyed by (seed, sequence_key, layer, block)
  at::Device device = at::kCPU;
  // [R/2], radians per position: RoPE rotates channels i and i + R/2 of the keys (R <= D, even); channels R ... D-1 are
  // not rotated. Empty if keys have no RoPE. Outlives the cache. A method that needs keys before RoPE applies the
  // inverse rotation.
  std::span<const float> rope_frequencies = {};
  int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0: all
  Holds holds = Holds::both;   // k or v only if the plugin declares Capabilities::splits
  // Scale of the model's attention, softmax(q k^T * scale), for methods that rank tokens before the first attend().
  double attention_scale = usual_attention_scale(head_dim);
  double logit_softcap = 0;  // c: scores become c * tanh(score / c) before the mask (Gemma 2); 0: none
  // [H_q] fp32 on the cache's device: one logit per query head, which adds e^sink to the softmax's denominator and
  // nothing to the output (gpt-oss). Not scaled, not a token. Undefined: none.
  at::Tensor sinks = {};
  // RoPE position of the first token that the cache gets. Earlier ones are never appended: the sliding window hides
  // them from the prompt's last query and all later ones. All other positions (NewTokens, length(), positions()) count
  // the tokens of this cache, from 0 on.
  int64_t first_position = 0;
  // GGUF files of the model's family, and engines that read them, have channels i and i + D/2 of Q and K as neighbours
  // 2i and 2i + 1. Here they are in the order that RoPE above and Hugging Face have.
  bool has_neighbours_in_gguf = false;

  bool holds_k() const { return holds != Holds::v; }
  bool holds_v() const { return holds != Holds::k; }
};

// Which part of a sequence an append() brings.
enum class AppendKind : uint8_t {
  whole_prompt,  // all tokens of the prompt
  prompt_chunk,  // some of them, and more will follow; only if the plugin declares Capabilities::chunked_prompt
  last_chunk,    // the last ones of a prompt in chunks
  decoded,       // the token of a decode step
};

// Keys and values of the next tokens, and their queries.
struct NewTokens {
  at::Tensor q;  // [H_q, T, D] fp32, fp16 or bf16; undefined where there are no queries (K and V from a file)
  at::Tensor k;  // [H_kv, T, D]
  at::Tensor v;  // [H_kv, T, D]
  int64_t first_position = 0;  // of the first of the T tokens among the cache's: length() before the call
  AppendKind kind = first_position == 0 ? AppendKind::whole_prompt : AppendKind::decoded;

  bool ends_prompt() const { return kind == AppendKind::whole_prompt || kind == AppendKind::last_chunk; }
};

// A tensor that the cache does not store is undefined.
struct KeyValue {
  at::Tensor k;  // [H_kv, T_kept, D] fp32
  at::Tensor v;  // [H_kv, T_kept, D] fp32
};

class KVC_EXPORT LayerCache {
 public:
  virtual ~LayerCache();

  // Appends the next tokens: the whole prompt in the first call, then the tokens of one decode step per call.
  // The tensors belong to the caller: do not modify them, and copy what you keep, because they may be views of a buffer
  // that is overwritten soon. A tensor that the cache does not store may be undefined. Throws Error on a wrong shape or
  // a value that is not finite.
  virtual void append(const NewTokens& tokens) = 0;

  // Attention of the last T_q positions over the cache: q [H_q, T_q, D] in the model's type (fp32, fp16 or bf16)
  // -> [H_q, T_q, D] fp32. scale: the model's scale is in LayerInfo.
  // Default: reference_attention over attended(). Overrides compute the same
  // result on the compressed form; the default is their reference, and handles every shape that they do not. Not called
  // if the cache stores only K or only V.
  virtual at::Tensor attend(const at::Tensor& q, double scale) const;

  // The best reconstruction of K and V from the stored data; errors of K and V are computed from it.
  virtual KeyValue dequantize() const = 0;

  // The query whose plain causal attention over attended() equals this cache's attention to q; the same shape, fp32.
  // Default: q. Override it if queries are rounded before products; kvc refuses one that is far from q.
  virtual at::Tensor attended_query(const at::Tensor& q) const;

  // The keys and values whose plain causal attention equals this cache's attention; shapes and order of dequantize().
  // Default: dequantize(). Override it if scores come from an unbiased estimator of inner products, whose vectors are
  // not the best reconstruction.
  virtual KeyValue attended() const;

  // [H_kv, T_kept] int64: the position of each kept token, ascending; -1 for heads that keep fewer.
  // Default: 0 ... length()-1 for every head.
  virtual at::Tensor positions() const;

  virtual int64_t length() const = 0;            // tokens appended so far, without dropped ones (DropsTokens)
  virtual int64_t n_encoded_tokens() const = 0;  // tokens compressed or evicted so far; if it stays 0, nothing ran
  // Number of K and V values stored in compressed form (evicted ones are not stored). Default: the values of compressed
  // tokens that are still in positions(). Override it if K and V are compressed at different times.
  virtual int64_t n_encoded_numbers() const;
  virtual Footprint footprint() const = 0;

 protected:
  explicit LayerCache(const LayerInfo& info) : info_(info) {}
  // Throws unless the stored ones of k and v are [H_kv, T, D], T >= 1, finite, and start at position length().
  void check_new_tokens(const NewTokens& tokens) const;
  const LayerInfo& info() const { return info_; }
  int64_t numbers_of(int64_t n_tokens) const {  // K and V values of that many tokens
    return n_tokens * info_.n_kv_heads * info_.head_dim * (int64_t{info_.holds_k()} + int64_t{info_.holds_v()});
  }

 private:
  LayerInfo info_;
};

// Optional interface, found by dynamic_cast on the LayerCache: removes tokens that a sliding window hides from all later
// queries. The host calls it between steps. Without it a cache holds every token that it gets.
class KVC_EXPORT DropsTokens {
 public:
  virtual ~DropsTokens();

  // Of the n_tokens oldest ones, how many can be removed now: whole blocks and groups.
  virtual int64_t droppable(int64_t n_tokens) const = 0;
  // Removes the oldest ones, a number that droppable() gave. Positions count from the first that is left.
  virtual void drop_oldest(int64_t n_tokens) = 0;
};

// Of n_tokens, those that a sliding window (0: none) hides from the last one.
inline int64_t n_hidden_tokens(int64_t sliding_window, int64_t n_tokens) {
  return sliding_window > 0 && n_tokens > sliding_window ? n_tokens - sliding_window : 0;
}

// What a layer's cache gets of a prompt: the tokens that its last query sees. Sets the layer's first_position.
KVC_EXPORT NewTokens seen_prompt(const NewTokens& prompt, LayerInfo& layer);

// Before the token at `position` (of the cache's) is appended: drops what the window hides from it, if the cache can and
// it is a block's worth. -> number of tokens dropped
KVC_EXPORT int64_t drop_hidden(LayerCache& cache, int64_t sliding_window, int64_t position);

// Weights of attention from scores q k^T * scale, which it changes: the layer's softcap, -infinity where `hidden` (bool,
// broadcast to scores), softmax over the last dimension with each head's sink in the denominator.
// scores: [..., T_q, T] fp32 or fp64, leading dimensions: query heads from first_head on, in any shape.
KVC_EXPORT at::Tensor attention_weights(at::Tensor scores, const at::Tensor& hidden, const LayerInfo& info,
                                        int64_t first_head = 0);

// attention_weights(q k^T * scale) v in fp32, causal by position and within the layer's sliding window; the last query
// is at position length-1. Of the layer, only window, softcap and sinks are used.
// q: [H_q, T_q, D], k and v: [H_kv, T_kept, D], positions: [H_kv, T_kept] int64 -> [H_q, T_q, D] fp32
KVC_EXPORT at::Tensor reference_attention(const at::Tensor& q, const KeyValue& kv, const at::Tensor& positions,
                                          int64_t length, double scale, const LayerInfo& layer = {});

}  // namespace kvc
