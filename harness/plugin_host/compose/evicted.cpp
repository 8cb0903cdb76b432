// A chain whose first stage evicts: it chooses, the rest stores.
#include <ATen/ATen.h>

#include <cmath>

#include "compose/chain_kinds.h"

namespace kvc {
namespace {

// The first stage's choice of the prompt's tokens in the second stage, and all later tokens there, too.
// Bytes: those of the second stage, and 4 a kept token (of each KV head, where heads differ) once a token is evicted.
class EvictedCache final : public ComposedCache {
 public:
  EvictedCache(const LayerInfo& info, const Part& evictor, const Part& storage)
      : ComposedCache(info, evictor.n_stages + storage.n_stages),
        evictor_(evictor),
        past_(static_cast<size_t>(1 + evictor.n_stages + storage.n_stages)),
        stored_(evictor.n_stages + 1, storage.compressor->make_cache(without_window(info))) {}

  KeyValue gather(Gather what) const override { return stored_.gather(what); }
  at::Tensor attended_query(const at::Tensor& q) const override { return stored_->attended_query(q); }
  bool has_halves(const at::Tensor& q) const override { return stored_.has_halves(q); }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    stored_.add_scores(q, scale, to);
  }
  at::Tensor mix(const at::Tensor& weights) const override { return stored_.mix(weights); }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_ - stored_->length() + stored_->n_encoded_tokens(); }
  int64_t n_encoded_numbers() const override { return stored_->n_encoded_numbers(); }

  at::Tensor positions() const override {
    if (!kept_.defined()) return LayerCache::positions();
    const int64_t n_new = stored_->length() - kept_.size(1), n_heads = info().n_kv_heads;
    const auto later = at::arange(length_ - n_new, length_, kept_.options().dtype(at::kLong));
    return at::cat({kept_.to(at::kLong).expand({n_heads, kept_.size(1)}), later.expand({n_heads, n_new})}, 1);
  }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (length_ == 0) {
      take_prompt(tokens);
    } else {
      stored_.append({tokens.q, tokens.k, tokens.v, stored_->length()});
    }
    length_ += tokens.k.size(1);
  }

  // A single query comes after all stored tokens: the storage's own attention sees what it must, unless a window hides
  // tokens by their positions in the text.
  at::Tensor attend_parts(const at::Tensor& q, double scale) const override {
    const bool hides = info().sliding_window > 0 && length_ > info().sliding_window;
    return q.size(1) == 1 && !hides ? stored_.attend(q, scale) : ComposedCache::attend_parts(q, scale);
  }

  void add_parts(std::vector<StageUse>& uses) const override {
    for (size_t i = 1; i < past_.size(); ++i) {
      uses[i].encode_seconds += past_[i].encode_seconds;
      uses[0].encode_seconds -= past_[i].encode_seconds;
    }
    uses[1].bytes.add(CacheTensor::shared, ByteKind::index, kept_);
    stored_.add_to(uses);
  }

 private:
  static LayerInfo without_window(LayerInfo info) {
    info.sliding_window = 0;  // which goes by positions in the text
    return info;
  }

  // The evictor's cache lives no longer than this.
  void take_prompt(const NewTokens& tokens) {
    PartCache evicted(1, evictor_.compressor->make_cache(info()));
    evicted.append(tokens);
    const auto positions = evicted->positions();
    KVC_CHECK(positions.ge(0).all().item<bool>(), "chain: ", evictor_.name,
              " keeps more tokens of one KV head than of another, and the next stage takes as many of each");
    const auto kept = evicted.gather(Gather::held);
    stored_.append({{}, kept.k, kept.v, 0});
    if (positions.size(1) < tokens.k.size(1)) {
      const auto first = positions.narrow(0, 0, 1);
      const bool heads_agree = positions.eq(first).all().item<bool>();
      kept_ = (heads_agree ? first : positions).to(at::kInt).clone(at::MemoryFormat::Contiguous);
    }
    evicted.add_to(past_);
  }

  const Part& evictor_;
  std::vector<StageUse> past_;  // of the evictor; only its time counts
  PartCache stored_;
  at::Tensor kept_;  // [H_kv or 1, n] int32: positions of the prompt's tokens, once some are evicted
  int64_t length_ = 0;
};

class Evicted final : public Compressor {
 public:
  Evicted(Part evictor, Part storage) : evictor_(std::move(evictor)), storage_(std::move(storage)) {}

  void check_model(const ModelShape& model) const override {
    check_part(concat("stage 1 (", evictor_.name, ")"), evictor_, model);
    check_part(concat("stage ", evictor_.n_stages + 1, " (", storage_.name, ")"), storage_, model);
  }
  std::unique_ptr<LayerCache> make_cache(const LayerInfo& info) const override {
    return std::make_unique<EvictedCache>(info, evictor_, storage_);
  }
  double bits() const override { return storage_.compressor->bits(); }  // the evictor stores nothing

  // How many tokens the evictor's paper keeps is not what its closed form says.
  double paper_bytes(const ModelShape&, int64_t, int64_t) const override { return std::nan(""); }

 private:
  Part evictor_, storage_;
};

}  // namespace

std::unique_ptr<Compressor> make_evicted(Part evictor, Part storage) {
  return std::make_unique<Evicted>(std::move(evictor), std::move(storage));
}

}  // namespace kvc
