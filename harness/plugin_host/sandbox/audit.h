// The attention audit: whether a compressor ran, judged by its output. After the prompt and at randomly drawn steps each
// layer's cache is asked, in the same way, for its content; its attention is compared with attention over the exact K
// and V and over that content, and the content's error with the least that its bytes allow. docs/methodology.md derives
// the bounds.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "kvc/layer_cache.h"

namespace kvc {

// Throws Error unless attention has the shape of its queries and lies where they do.
void check_attention(const at::Tensor& attention, const at::Tensor& q);

// What a cache says of itself, asked once for each: the plugin's code runs, and the tensors are its own.
struct CacheAnswer {
  at::Tensor positions;        // as LayerCache has them
  KeyValue attended, nearest;  // attended(), dequantize()
  at::Tensor query;            // attended_query()
  Footprint footprint;
  CacheAnswer clone() const;  // without the footprint's storages
};

// Optional interface of a LayerCache that gives all of it in one call, as what runs in another process does.
class AnswersAtOnce {
 public:
  virtual ~AnswersAtOnce() = default;
  virtual CacheAnswer answer(const at::Tensor& q) const = 0;
};

// q: [H_q, T_q, D], what its attention was asked for. Throws Error where shapes or rows do not fit.
CacheAnswer ask(const LayerCache& cache, const at::Tensor& q);

// Throws Error unless each KV head has positions below n_tokens in ascending order, with -1 where it keeps fewer; and
// all of them, where the plugin does not say that it evicts.
void check_positions(const at::Tensor& positions, int64_t n_kv_heads, int64_t n_tokens, bool may_evict);

// What a cache counts of itself against the n_tokens that it was given, n_values of K and V in all: tokens and values
// that are encoded. Throws Error.
void check_counts(const LayerCache& cache, int64_t n_tokens, int64_t n_values);

// Of these bytes, those of uncompressed tokens: at most 16 bits for each value that is not encoded, whatever kind more
// bytes are said to be of.
int64_t recent_bytes(const Footprint& footprint, int64_t n_values, int64_t n_encoded_values);

// The exact K and V of one layer's prompt, with which all sequences that begin with it are compared.
class AuditedPrompt {
 public:
  // k, v: [H_kv, T, D], copied. bits_granted: to each value, beyond what a Gaussian of their covariance needs; keys
  // and values of a model are no Gaussian noise.
  AuditedPrompt(const LayerInfo& info, const at::Tensor& k, const at::Tensor& v, double bits_granted = 2);

  int64_t layer() const { return info_.layer; }
  const LayerInfo& info() const { return info_; }
  const KeyValue& given() const { return given_; }
  double bits_granted() const { return bits_granted_; }
  // The smallest relative error of K, of V, that `bits` bits in all can give, plus the bits granted per value.
  double least_k_error(int64_t bits) const { return least_error(given_.k, k_variances_, bits); }
  double least_v_error(int64_t bits) const { return least_error(given_.v, v_variances_, bits); }

 private:
  double least_error(const at::Tensor& x, std::vector<double>& variances, int64_t bits) const;

  LayerInfo info_;
  KeyValue given_;
  double bits_granted_;
  mutable std::vector<double> k_variances_, v_variances_;  // of a token's principal components, once they are asked for
};

// The audit of one sequence in one layer.
class LayerAudit {
 public:
  explicit LayerAudit(std::shared_ptr<const AuditedPrompt> prompt, bool may_evict = true)
      : prompt_(std::move(prompt)), may_evict_(may_evict) {}

  // A step's token, as it is appended to the cache; k, v: [H_kv, 1, D], kept.
  void add(at::Tensor k, at::Tensor v);
  void drop(int64_t n_tokens) { n_dropped_ += n_tokens; }  // the cache dropped its oldest tokens

  // q and the cache's attention: [H_q, T_q, D], of the last positions. Throws Error with what does not fit.
  void check(const CacheAnswer& answer, const at::Tensor& q, const at::Tensor& attention) const;
  void compare(const LayerCache& cache, const at::Tensor& q, const at::Tensor& attention) const {
    check(ask(cache, q), q, attention);
  }

  // The cache has just been given the prompt; q: [H_q, T >= 1, D], its last queries.
  void audit_prompt(const LayerCache& cache, const at::Tensor& q) const;

 private:
  void check_error(const CacheAnswer& answer, const KeyValue& given) const;

  std::shared_ptr<const AuditedPrompt> prompt_;
  bool may_evict_;
  std::vector<at::Tensor> k_, v_;  // of the steps
  int64_t n_dropped_ = 0;          // of the prompt's and the steps' tokens, the oldest
};

// The audit of one sequence while it decodes. The exact K and V of some layers, drawn at random, are kept; their caches
// are called exactly as those of other layers until a step has gone through all layers.
class Audit {
 public:
  explicit Audit(uint32_t seed = 0, bool may_evict = true) : may_evict_(may_evict), random_(seed) {}

  bool may_evict() const { return may_evict_; }
  // From here on the layer's later tokens are kept, and its answers checked.
  void keep(std::shared_ptr<const AuditedPrompt> prompt);

  // Once per step, before its first layer; then for each layer its token, and if the step is one that inspects() the
  // answer and the attention [H_q, D] that the model uses. All are copied.
  void begin_step();
  bool inspects() const { return inspects_; }
  void add(int64_t layer, const NewTokens& token);
  void drop(int64_t layer, int64_t n_tokens);  // before the step's token was appended
  void take(int64_t layer, const CacheAnswer& answer, const at::Tensor& q, const at::Tensor& attention);
  // After the last layer. Throws Error with what does not fit.
  void settle();

 private:
  struct Taken {
    int64_t layer;
    CacheAnswer answer;
    at::Tensor q, attention;
  };

  bool may_evict_;
  std::minstd_rand random_;
  std::map<int64_t, LayerAudit> layers_;                  // by layer
  std::vector<Taken> taken_;                              // at this step
  size_t n_steps_ = 0, next_inspection_ = random_() % 8;  // the step after which to audit
  bool inspects_ = false;
};

}  // namespace kvc
