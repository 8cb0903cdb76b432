// A compressor of keys from which the prompt's mean is subtracted, channel by channel.
#include <ATen/ATen.h>

#include "compose/compose.h"
#include "compose/wrapped.h"

namespace kvc {
namespace {

// A query's product with the mean is the same for all tokens, so it cancels in a softmax over these alone.
class CenteredCache final : public OnePartCache {
 public:
  using OnePartCache::OnePartCache;

  KeyValue gather(Gather what) const override {
    auto held = part_.gather(what);
    if (held.k.defined()) held.k = held.k + mean_;
    return held;
  }
  void add_scores(const at::Tensor& q, double scale, const at::Tensor& to) const override {
    part_.add_scores(q, scale, to);
    const auto grouped = attended_query(q).to(at::kFloat).reshape({info().n_kv_heads, -1, info().head_dim});
    const auto of_mean = at::matmul(grouped, mean_.to(at::kFloat).transpose(1, 2)).mul_(scale);
    to.add_(of_mean.view({q.size(0), q.size(1), 1}));
  }

 protected:
  void append_parts(const NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (info().holds_k() && !mean_.defined()) mean_ = tokens.k.to(at::kFloat).mean(1, true).to(at::kHalf);
    part_.append({tokens.q, info().holds_k() ? tokens.k.to(at::kFloat) - mean_ : tokens.k, tokens.v,
                  tokens.first_position, tokens.kind});
  }
  at::Tensor attend_parts(const at::Tensor& q, double scale) const override {
    const bool cancels = info().logit_softcap == 0 && !info().sinks.defined();
    return cancels ? part_.attend(q, scale) : ComposedCache::attend_parts(q, scale);
  }
  void add_parts(std::vector<StageUse>& uses) const override {
    uses[0].bytes.add(CacheTensor::k, ByteKind::means, mean_);
    part_.add_to(uses);
  }

 private:
  at::Tensor mean_;  // [H_kv, 1, D] at 16 bits, of the prompt's keys, or of its first chunk's
};

}  // namespace

Part make_centered(Part part) {
  return wrapped("centered", std::move(part), [](const LayerInfo& info, const Compressor& inner, int n_stages) {
    return std::make_unique<CenteredCache>(info, n_stages, PartCache(1, inner.make_cache(info)));
  });
}

}  // namespace kvc
