// A compressor with the first or the latest tokens of each layer stored exactly.
#include <ATen/ATen.h>

#include <algorithm>

#include "compose/compose.h"
#include "compose/wrapped.h"
#include "kvc/value_checks.h"

namespace kvc {
namespace {

constexpr auto kStored = at::kHalf;

at::Tensor at_16_bits(const at::Tensor& x) {
  if (!x.defined()) return x;
  const auto stored = at::empty(x.sizes(), x.options().dtype(kStored)).copy_(x);
  check_values(stored.isfinite(), [] { return "an exact token's value is beyond fp16 (65504)"; });
  return stored;
}
at::Tensor narrow(const at::Tensor& x, int64_t first, int64_t n) { return x.defined() ? x.narrow(1, first, n) : x; }

at::Tensor joined(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return at::cat({a, b}, 1);
}

// Tokens at 16 bits, oldest first.
class ExactTokens {
 public:
  int64_t n() const { return n_; }
  void append(const at::Tensor& k, const at::Tensor& v, int64_t first, int64_t n) {
    k_ = joined(k_, at_16_bits(narrow(k, first, n)));
    v_ = joined(v_, at_16_bits(narrow(v, first, n)));
    n_ += n;
  }
  void drop_oldest(int64_t n) {
    for (auto* x : {&k_, &v_}) {
      if (x->defined()) *x = n == n_ ? at::Tensor() : narrow(*x, n, n_ - n).clone(at::MemoryFormat::Contiguous);
    }
    n_ -= n;
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const { add_exact_scores(q, k_, scale, to); }
  at::Tensor mix(const at::Tensor& weights) const { return exact_mix(weights, v_); }
  KeyValue oldest(int64_t n) const { return {narrow(k_, 0, n), narrow(v_, 0, n)}; }
  KeyValue values() const { return {k_.defined() ? k_.to(at::kFloat) : k_, v_.defined() ? v_.to(at::kFloat) : v_}; }
  void add_to(Footprint& bytes) const {
    bytes.add(CacheTensor::k, ByteKind::recent, k_);
    bytes.add(CacheTensor::v, ByteKind::recent, v_);
  }

 private:
  at::Tensor k_, v_;  // [H_kv, n, D]
  int64_t n_ = 0;
};

// What both kinds have alike: exact tokens and a part that has the others.
class PartlyExactCache : public ComposedCache, public DropsTokens {
 public:
  at::Tensor attended_query(const at::Tensor& q) const override { return part_->attended_query(q); }
  bool has_halves(const at::Tensor& q) const override { return part_.has_halves(q); }
  LayerCache& prompt() override { return part_.cache(); }
  int64_t length() const override { return exact_.n() + part_->length(); }
  int64_t n_encoded_tokens() const override { return part_->n_encoded_tokens(); }
  int64_t n_encoded_numbers() const override { return part_->n_encoded_numbers(); }

 protected:
  PartlyExactCache(const LayerInfo& info, int n_stages, PartCache part)
      : ComposedCache(info, n_stages), part_(std::move(part)) {}

  // Undefined tensors where the part has no token.
  KeyValue of_part(Gather what) const { return part_->length() > 0 ? part_.gather(what) : KeyValue(); }
  // Those of the exact tokens come first, or those of the part do.
  void add_scores_of_both(const at::Tensor& q, double scale, const at::Tensor& to, bool exact_first) const {
    const int64_t n_exact = exact_.n(), n_rest = to.size(2) - n_exact;
    if (n_exact > 0) exact_.add_scores(attended_query(q), scale, to.narrow(2, exact_first ? 0 : n_rest, n_exact));
    if (n_rest > 0) part_.add_scores(q, scale, to.narrow(2, exact_first ? n_exact : 0, n_rest));
  }
  at::Tensor mix_of_both(const at::Tensor& weights, bool exact_first) const {
    if (exact_.n() == 0) return part_.mix(weights);
    const int64_t n_exact = exact_.n(), n_rest = weights.size(2) - n_exact;
    const auto exact = exact_.mix(weights.narrow(2, exact_first ? 0 : n_rest, n_exact));
    return n_rest > 0 ? exact + part_.mix(weights.narrow(2, exact_first ? n_exact : 0, n_rest)) : exact;
  }
  at::Tensor positions_of_part() const { return part_->length() > 0 ? part_->positions() : consecutive(0, 0); }
  at::Tensor consecutive(int64_t first, int64_t n) const {
    return at::arange(first, first + n, at::TensorOptions(at::kLong).device(info().device))
        .expand({info().n_kv_heads, n});
  }

  // A part whose first tokens come after the prompt takes them for one.
  void append_to_part(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AppendKind kind) {
    const bool is_first = part_->length() == 0;
    if (is_first && kind != AppendKind::prompt_chunk) kind = AppendKind::whole_prompt;
    part_.append({q, k, v, part_->length(), kind});
  }
  void add_parts(std::vector<StageUse>& uses) const override {
    exact_.add_to(uses[0].bytes);
    part_.add_to(uses);
  }

  ExactTokens exact_;
  PartCache part_;
};

class SinksCache final : public PartlyExactCache {
 public:
  SinksCache(const LayerInfo& info, int n_stages, int64_t n, PartCache part)
      : PartlyExactCache(info, n_stages, std::move(part)), n_left_(n) {}

  KeyValue gather(Gather what) const override {
    const auto first = exact_.values(), rest = of_part(what);
    return {joined(first.k, rest.k), joined(first.v, rest.v)};
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    add_scores_of_both(q, scale, to, true);
  }
  at::Tensor mix(const at::Tensor& weights) const override { return mix_of_both(weights, true); }
  at::Tensor positions() const override {
    return positions_in_turn(consecutive(0, exact_.n()), positions_of_part(), exact_.n());
  }
  int64_t droppable(int64_t n_tokens) const override {
    return n_tokens < exact_.n() ? 0 : exact_.n() + part_.droppable(n_tokens - exact_.n());
  }
  void drop_oldest(int64_t n_tokens) override {
    if (n_tokens == 0) return;
    const int64_t rest = n_tokens - exact_.n();
    exact_.drop_oldest(exact_.n());
    if (rest > 0) part_.drop_oldest(rest);
  }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    const auto& any = tokens.k.defined() ? tokens.k : tokens.v;
    const int64_t n = any.size(1), n_first = std::min(n_left_, n);
    if (n_first > 0) exact_.append(tokens.k, tokens.v, 0, n_first);
    n_left_ -= n_first;
    if (n_first == n) return;
    const auto rest = [&](const at::Tensor& x) { return narrow(x, n_first, n - n_first); };
    append_to_part(rest(tokens.q), rest(tokens.k), rest(tokens.v), tokens.kind);
  }

 private:
  int64_t n_left_;  // of the first tokens, those that have not come yet
};

class RecentCache final : public PartlyExactCache {
 public:
  RecentCache(const LayerInfo& info, int n_stages, int64_t n, PartCache part)
      : PartlyExactCache(info, n_stages, std::move(part)), n_most_(n) {}

  KeyValue gather(Gather what) const override {
    const auto first = of_part(what), rest = exact_.values();
    return {joined(first.k, rest.k), joined(first.v, rest.v)};
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    add_scores_of_both(q, scale, to, false);
  }
  at::Tensor mix(const at::Tensor& weights) const override { return mix_of_both(weights, false); }
  at::Tensor positions() const override {
    return positions_in_turn(positions_of_part(), consecutive(0, exact_.n()), part_->length());
  }
  int64_t droppable(int64_t n_tokens) const override { return part_.droppable(std::min(n_tokens, part_->length())); }
  void drop_oldest(int64_t n_tokens) override { part_.drop_oldest(n_tokens); }

 protected:
  // What leaves the exact tokens was stored at 16 bits, and what never enters them is rounded alike. Queries are those
  // of a prompt in one piece: they are not stored.
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    const auto& any = tokens.k.defined() ? tokens.k : tokens.v;
    const int64_t n = any.size(1), n_out = std::max<int64_t>(0, exact_.n() + n - n_most_);
    const int64_t n_old = std::min(n_out, exact_.n()), n_new = n_out - n_old;
    if (n_out > 0) {
      const auto type = any.scalar_type();
      const auto old = exact_.oldest(n_old);
      const auto out = [&](const at::Tensor& stored, const at::Tensor& x) {
        if (!x.defined()) return x;
        const auto fresh = at_16_bits(narrow(x, 0, n_new));
        return (n_old > 0 ? at::cat({stored, fresh}, 1) : fresh).to(type);
      };
      append_to_part(n_old == 0 ? narrow(tokens.q, 0, n_new) : at::Tensor(), out(old.k, tokens.k), out(old.v, tokens.v),
                     tokens.kind);
    }
    if (n_old > 0) exact_.drop_oldest(n_old);
    if (n > n_new) exact_.append(tokens.k, tokens.v, n_new, n - n_new);
  }

 private:
  int64_t n_most_;
};

template <class Cache>
Part exact(const char* name, int64_t n, Part part) {
  return wrapped(name, std::move(part), [n](const LayerInfo& info, const Compressor& inner, int n_stages) {
    auto of_the_part = info;
    of_the_part.first_position += std::is_same_v<Cache, SinksCache> ? n : 0;
    return std::make_unique<Cache>(info, n_stages, n, PartCache(1, inner.make_cache(of_the_part)));
  });
}

}  // namespace

Part make_sinks(int64_t n, Part part) { return exact<SinksCache>("sinks", n, std::move(part)); }
Part make_recent(int64_t n, Part part) { return exact<RecentCache>("recent", n, std::move(part)); }

}  // namespace kvc
