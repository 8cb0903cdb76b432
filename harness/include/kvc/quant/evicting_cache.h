// A cache that evicts. The author writes how much each KV head wants each token, and how many tokens a head keeps:
//   class NormCache final : public kvc::EvictingCache {
//    public:
//     explicit NormCache(const kvc::LayerInfo& info) : EvictingCache(info, {.method = "norm", .reads_queries = false})
//     {}
//    private:
//     kvc::TokenBudget budget(int64_t n) const override { return {.ranked = n / 2, .recent = 32}; }
//     at::Tensor score(const kvc::NewTokens& prompt) const override { return -prompt.k.norm(2, 2); }
//   };
// What is evicted is gone for good; what stays keeps its position in the text. Of equal scores the older token stays.
// Bytes per layer, m held tokens a KV head: H_kv * m * 4 * D (8 * D with Precision::exact), and with Ranking
//   prompt   H_kv * 4 for each token that the prompt kept, once some of it are evicted: its position
//   always   H_kv * m * 8: position and score
//   at_intervals   as prompt, of what the last eviction kept, and the n_queries newest queries: H_q * n_queries * 2 * D
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/quant/parts_cache.h"
#include "kvc/quant/precision.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

enum class Ranking : uint8_t {
  none,  // by place alone: sinks and recent stay. What a token displaces goes as it comes: it sees `recent`, itself too
  prompt,        // the prompt's tokens, once; all later ones stay
  always,        // at each token again: a step appends, attends, then evicts, so its eviction waits for the next append
  at_intervals,  // the prompt, and all that is held after each `interval` new tokens; as with always that waits
};

// How many tokens each KV head keeps.
struct TokenBudget {
  int64_t sinks = 0;   // the first ones of the text
  int64_t ranked = 0;  // those of highest score of what lies between
  int64_t recent = 0;  // the newest ones
};

struct EvictionFormat {
  const char* method = "";  // for errors
  Ranking ranking = Ranking::prompt;
  Precision precision = Precision::real;
  bool reads_queries = true;  // scores come from queries: where tokens are ranked and have none, that is an Error
  int64_t interval = 0;       // of Ranking::at_intervals, and how many of the newest queries are held for it
  int64_t n_queries = 0;
};

class KVC_EXPORT EvictingCache : public PartsCache {
 public:
  // Throws, beside what check_new_tokens does, where queries are read and are absent, of a shape that is not
  // [H_q, T, D], or not finite.
  void append(const NewTokens& tokens) final;
  KeyValue dequantize() const final { return {k_.all(), v_.all()}; }
  at::Tensor positions() const final;
  int64_t length() const final { return length_; }
  int64_t n_encoded_tokens() const final { return length_ - n_held(); }
  Footprint footprint() const final;

 protected:
  EvictingCache(const LayerInfo& info, const EvictionFormat& format);

  // Asked for once, with the prompt's length.
  virtual TokenBudget budget(int64_t n_prompt_tokens) const = 0;

  // [H_kv, T] fp32: what each KV head ranks the prompt's tokens by; the highest stay, infinity for ever. Not asked for
  // with Ranking::none, nor where the budget has room for all. With Ranking::at_intervals `prompt` is later what is
  // held, in fp32, at positions(): all k, no v, and the newest queries alone. Here: all alike.
  virtual at::Tensor score(const NewTokens& prompt) const;

  // With Ranking::always, after each new token: [H_kv, n] of all that are held. scores: what they had, the newest,
  // last, 0. Here: the newest gets score(token), the others keep theirs.
  virtual at::Tensor rescore(const at::Tensor& scores, const NewTokens& token) const;

  // [H_kv, n] fp32: what the newest token's query [H_q, 1, D] gives to each held token, summed over the query heads of
  // a KV head, at the model's scale. On the CPU only.
  at::Tensor received(const at::Tensor& q) const;

 private:
  // K or V.
  struct Held {
    TokenBlocks sinks, rest;
    int64_t n_tokens() const { return sinks.n_tokens() + rest.n_tokens(); }
    at::Tensor all() const;
    void add_to(Footprint& bytes, CacheTensor tensor) const;
    void take(const at::Tensor& x, int64_t n_sinks, int64_t n_recent, int64_t window);
  };

  bool has_room(int64_t n_prompt_tokens) const;
  at::Tensor best(const at::Tensor& scores) const;
  void take_by_place(const NewTokens& tokens);
  void take_prompt(const NewTokens& tokens);
  void take_step(const NewTokens& token);
  void take_at_intervals(const NewTokens& tokens);
  void hold(const NewTokens& tokens);
  void hold_queries(const at::Tensor& q);
  at::Tensor scores_of(const NewTokens& tokens) const;
  void evict();
  int64_t n_held() const { return k_.n_tokens(); }
  std::vector<int64_t> n_hidden() const;
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void soften(CompressedAttention& attention) const final { attention.softmax(n_hidden()); }
  int64_t n_attended() const final { return n_held(); }

  EvictionFormat format_;
  TokenBudget budget_;
  Held k_, v_;
  at::Tensor kept_;  // [H_kv, m] int32: positions of the first m of `rest`; undefined where they follow from the counts
  at::Tensor scores_;    // [H_kv, n] fp32, with Ranking::always
  TokenBlocks queries_;  // the newest, with Ranking::at_intervals
  int64_t length_ = 0;
  int64_t n_since_ = 0;  // new tokens since the last interval ended
};

}  // namespace kvc
