// A cache that evicts tokens. The author gives a score for each token and KV head, and how many tokens a head keeps:
//   class NormCache final : public kvc::EvictingCache {
//    public:
//     explicit NormCache(const kvc::LayerInfo& info)
//         : EvictingCache(info, {.method = "norm", .reads_queries = false}) {}
//    private:
//     kvc::TokenBudget budget(int64_t n) const override { return {.ranked = n / 2, .recent = 32}; }
//     at::Tensor score(const kvc::NewTokens& prompt) const override { return -prompt.k.norm(2, 2); }
//   };
// Evicted tokens are lost; kept tokens keep their positions in the text. Ties go to the older token.
// A prompt that comes in chunks (a plugin allows it with Capabilities::chunked_prompt) is ranked after each chunk: the
// tokens held from earlier chunks and the chunk's own, by the budget of the tokens so far.
// Bytes per layer with m stored tokens per KV head: H_kv * m * 4 * D (8 * D with Precision::exact), and with Ranking
//   prompt   H_kv * 4 (position) for each kept token of the prompt, if some of it was evicted
//   always   H_kv * m * 8 (position and score)
//   at_intervals   as prompt, for the tokens of the last eviction, and the newest queries: H_q * n_queries * 2 * D
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kvc/quant/parts_cache.h"
#include "kvc/quant/precision.h"
#include "kvc/quant/token_blocks.h"

namespace kvc {

enum class Ranking : uint8_t {
  none,  // by position only: keeps sinks and recent tokens, and evicts on arrival: a query sees `recent` tokens, itself
         // too
  prompt,        // ranks the prompt's tokens once; all later tokens are kept
  always,        // ranks at each token: a step appends, attends, then evicts; the eviction happens in the next append
  at_intervals,  // ranks the prompt, and all stored tokens after each `interval` new ones; evicts as `always` does
};

// How many tokens each KV head keeps.
struct TokenBudget {
  int64_t sinks = 0;   // the first tokens of the text
  int64_t ranked = 0;  // the highest scores in between
  int64_t recent = 0;  // the newest tokens
};

struct EvictionFormat {
  const char* method = "";  // for errors
  Ranking ranking = Ranking::prompt;
  Precision precision = Precision::real;
  bool reads_queries = true;  // scores need queries: ranking tokens without queries is an Error
  int64_t interval = 0;       // for Ranking::at_intervals, as is n_queries: the newest queries stored for it
  int64_t n_queries = 0;
};

class KVC_EXPORT EvictingCache : public PartsCache {
 public:
  // In addition to check_new_tokens, throws Error if queries are needed and are missing, not [H_q, T, D], or not
  // finite.
  void append(const NewTokens& tokens) final;
  KeyValue dequantize() const final { return {k_.all(), v_.all()}; }
  at::Tensor positions() const final;
  int64_t length() const final { return length_; }
  int64_t n_encoded_tokens() const final { return length_ - n_held(); }
  Footprint footprint() const final;

 protected:
  EvictingCache(const LayerInfo& info, const EvictionFormat& format);

  // Called with the prompt's length; for a prompt in chunks after each, with the number of tokens so far.
  virtual TokenBudget budget(int64_t n_prompt_tokens) const = 0;

  // [H_kv, T] fp32: scores of the prompt's tokens for each KV head; the highest are kept, infinity always. Not called
  // with Ranking::none, or if the budget has room for all. With Ranking::at_intervals, later calls get the stored
  // tokens at positions() in fp32: all of k, no v, and the newest queries only; so does a call after a chunk of a
  // prompt, with the chunk's queries. Default: equal scores.
  virtual at::Tensor score(const NewTokens& prompt) const;

  // With Ranking::always, called after each new token or chunk of a prompt: new scores [H_kv, n] of all stored tokens.
  // scores: the previous ones, with 0 for the new tokens, which are last. Default: the new ones get score(tokens), the
  // others keep theirs.
  virtual at::Tensor rescore(const at::Tensor& scores, const NewTokens& tokens) const;

  // [H_kv, n] fp32: attention of the newest tokens' queries [H_q, T, D] to each stored token, summed over the queries
  // and the query heads of a KV head, with the model's scale. CPU only.
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
  void take_chunk(const NewTokens& tokens);
  void take_at_intervals(const NewTokens& tokens);
  void hold(const NewTokens& tokens);
  void hold_queries(const at::Tensor& q);
  at::Tensor scores_of(const NewTokens& tokens) const;
  void evict();
  void keep_best(const at::Tensor& scores);
  int64_t n_held() const { return k_.n_tokens(); }
  std::vector<int64_t> n_hidden() const;
  void read_k(CompressedAttention& attention) const final;
  void read_v(CompressedAttention& attention) const final;
  void apply_softmax(CompressedAttention& attention) const final { attention.softmax(n_hidden()); }
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
