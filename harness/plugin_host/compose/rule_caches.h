// The caches that make_rules makes: of one part, of one part after another, of one part a tensor.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>

#include "compose/part.h"

namespace kvc {

// The whole cache of one part.
class WholeCache final : public OnePartCache {
 public:
  using OnePartCache::OnePartCache;
  KeyValue gather(Gather what) const override { return part_.gather(what); }

 protected:
  void append_parts(const NewTokens& tokens) override { part_.append(tokens); }
  at::Tensor attend_parts(const at::Tensor& q, double scale) const override { return part_.attend(q, scale); }
  void add_parts(std::vector<StageUse>& uses) const override { part_.add_to(uses); }
};

// The prompt in one cache, all later tokens in another, which counts them from 0.
class PhaseCache final : public ComposedCache {
 public:
  PhaseCache(const LayerInfo& info, int n_stages, PartCache prompt, PartCache decoded)
      : ComposedCache(info, n_stages), prompt_(std::move(prompt)), decoded_(std::move(decoded)) {}

  KeyValue gather(Gather what) const override {
    if (decoded_->length() == 0) return prompt_.gather(what);
    const auto first = prompt_.gather(what), rest = decoded_.gather(what);
    return {info().holds_k() ? at::cat({first.k, rest.k}, 1) : at::Tensor(),
            info().holds_v() ? at::cat({first.v, rest.v}, 1) : at::Tensor()};
  }
  at::Tensor positions() const override {
    if (decoded_->length() == 0) return prompt_->positions();
    return positions_in_turn(prompt_->positions(), decoded_->positions(), prompt_->length());
  }
  LayerCache& prompt() override { return prompt_.cache(); }
  bool has_halves(const at::Tensor& q) const override {
    return prompt_.has_halves(q) && decoded_.has_halves(q) && !prompt_.rounds(q) && !decoded_.rounds(q);
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    const int64_t n_rest = n_decoded(), n_first = to.size(2) - n_rest;
    prompt_.add_scores(q, scale, to.narrow(2, 0, n_first));
    if (n_rest > 0) decoded_.add_scores(q, scale, to.narrow(2, n_first, n_rest));
  }
  at::Tensor mix(const at::Tensor& weights) const override {
    const int64_t n_rest = n_decoded(), n_first = weights.size(2) - n_rest;
    const auto first = prompt_.mix(weights.narrow(2, 0, n_first));
    return n_rest > 0 ? first + decoded_.mix(weights.narrow(2, n_first, n_rest)) : first;
  }
  int64_t length() const override { return prompt_->length() + decoded_->length(); }
  int64_t n_encoded_tokens() const override { return prompt_->n_encoded_tokens() + decoded_->n_encoded_tokens(); }
  int64_t n_encoded_numbers() const override { return prompt_->n_encoded_numbers() + decoded_->n_encoded_numbers(); }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (length() == 0 || tokens.kind != AppendKind::decoded) return prompt_.append(tokens);
    decoded_.append({tokens.q, tokens.k, tokens.v, decoded_->length()});
  }
  void add_parts(std::vector<StageUse>& uses) const override {
    prompt_.add_to(uses);
    decoded_.add_to(uses);
  }

 private:
  int64_t n_decoded() const { return decoded_->length() > 0 ? decoded_->positions().size(1) : 0; }

  PartCache prompt_, decoded_;
};

// K in one cache, V in another.
class SplitCache final : public ComposedCache, public DropsTokens {
 public:
  SplitCache(const LayerInfo& info, int n_stages, PartCache k, PartCache v)
      : ComposedCache(info, n_stages), k_(std::move(k)), v_(std::move(v)) {}

  KeyValue gather(Gather what) const override { return {k_.gather(what).k, v_.gather(what).v}; }
  bool has_halves(const at::Tensor& q) const override { return k_.has_halves(q) && v_.has_halves(q); }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    k_.add_scores(q, scale, to);
  }
  at::Tensor mix(const at::Tensor& weights) const override { return v_.mix(weights); }
  at::Tensor attended_query(const at::Tensor& q) const override { return k_->attended_query(q); }
  int64_t length() const override { return k_->length(); }
  int64_t n_encoded_tokens() const override { return std::max(k_->n_encoded_tokens(), v_->n_encoded_tokens()); }
  int64_t n_encoded_numbers() const override { return k_->n_encoded_numbers() + v_->n_encoded_numbers(); }
  int64_t droppable(int64_t n_tokens) const override {
    for (int64_t before = -1; n_tokens != before;) {  // until the groups of both end at the same token
      before = n_tokens;
      n_tokens = v_.droppable(k_.droppable(n_tokens));
    }
    return n_tokens;
  }
  void drop_oldest(int64_t n_tokens) override {
    k_.drop_oldest(n_tokens);
    v_.drop_oldest(n_tokens);
  }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    k_.append({tokens.q, tokens.k, {}, tokens.first_position, tokens.kind});
    v_.append({tokens.q, {}, tokens.v, tokens.first_position, tokens.kind});
  }
  void add_parts(std::vector<StageUse>& uses) const override {
    k_.add_to(uses);
    v_.add_to(uses);
  }

 private:
  PartCache k_, v_;
};

}  // namespace kvc
