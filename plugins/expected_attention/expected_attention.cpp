// Expected Attention: the prompt's queries, taken back to before RoPE, are seen as normal numbers of mean mu and
// covariance S for each query head; RoPE averaged over the next `horizon` positions (the matrix R) carries both to
// where later queries will stand, and a key's expected weight follows in closed form:
//   z = scale * k . R mu + scale^2 / 2 * k . (R S R^T) k,   w = softmax of z over the prompt's keys behind the sinks,
//   score = (mean of w over the query heads of the KV head + epsilon) * |v|.
// Each KV head keeps the highest, and the first `sinks`. Tokens after the prompt are all held exactly.
// Bytes per layer, n0 prompt tokens of which m = round(keep * n0) stay:
//   H_kv * (4 * D * (m + n_new) + (n0 > m ? 4 * m positions : 0));   precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>
#include <cmath>

namespace {

struct ExpectedAttentionOptions {
  double keep = 0.5;
  int64_t sinks = 4;
  int64_t horizon = 512;
  double epsilon = 0;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.real("keep", keep, 0, 1, "fraction of prompt tokens to keep, sinks included");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, always kept and excluded from the statistics");
    v.integer("horizon", horizon, 1, 1 << 20, "positions after the prompt over which RoPE is averaged");
    v.real("epsilon", epsilon, 0, 1, "added to the expected attention before multiplication by |v|");
    kvc::visit_precision(v, precision, "tokens");
  }

  int64_t n_kept(int64_t n) const {  // of a prompt of n tokens
    return std::clamp<int64_t>(std::llround(keep * static_cast<double>(n)), 1, n);
  }
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const { return n_kept(n_prompt_tokens) + n_new_tokens; }
  void check() const { KVC_CHECK(keep > 0, "expected_attention: keep 0, allowed: above 0 to 1"); }
};

// RoPE of the angles [n, R/2] as a rotation of channels i and i + R/2 of x [H, n, D]; those from R on stay.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& angles) {
  const int64_t half = angles.size(1);
  const auto c = angles.cos(), s = angles.sin(), low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return at::cat({low * c - high * s, high * c + low * s, x.narrow(2, 2 * half, x.size(2) - 2 * half)}, 2);
}

class ExpectedAttentionCache final : public kvc::EvictingCache {
 public:
  ExpectedAttentionCache(const kvc::LayerInfo& info, const ExpectedAttentionOptions& options)
      : EvictingCache(info, {.method = "expected_attention", .precision = options.precision}), options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t n) const override {
    const int64_t kept = options_.n_kept(n), sinks = std::min(options_.sinks, kept);
    return {.sinks = sinks, .ranked = kept - sinks};
  }

  at::Tensor score(const kvc::NewTokens& prompt) const override {
    const int64_t n = prompt.k.size(1), sinks = std::min(options_.sinks, n - 1);
    const auto behind = [&](const at::Tensor& x) { return x.narrow(1, sinks, n - sinks).to(at::kFloat); };
    const auto k = behind(prompt.k), v = behind(prompt.v);
    const auto weights = expected_weights(behind(prompt.q), k, info().first_position + sinks);
    return at::constant_pad_nd((weights + options_.epsilon) * v.norm(2, 2), {sinks, 0});  // the budget keeps the sinks
  }

  // Radians of positions first ... first + n - 1, [n, R/2] fp64.
  at::Tensor angles(int64_t first, int64_t n, const at::Device& device) const {
    const auto frequencies = info().rope_frequencies;
    const auto wide = at::TensorOptions(at::kDouble);
    const auto by =
        at::from_blob(const_cast<float*>(frequencies.data()), {static_cast<int64_t>(frequencies.size())}, at::kFloat)
            .to(at::kDouble);
    return at::outer(at::arange(first, first + n, wide), by).to(device);
  }

  // q [H_q, n, D], k [H_kv, n, D] of positions first ... to the prompt's end -> [H_kv, n]
  at::Tensor expected_weights(const at::Tensor& q, const at::Tensor& k, int64_t first) const {
    const int64_t n = q.size(1), group = q.size(0) / k.size(0);
    const bool has_rope = !info().rope_frequencies.empty();
    const auto plain = has_rope ? rotated(q, angles(first, n, q.device()).neg().to(at::kFloat)) : q;
    auto mean = plain.mean(1, /*keepdim=*/true);  // [H_q, 1, D]
    const auto centred = plain - mean;
    auto covariance = at::bmm(centred.transpose(1, 2), centred) / static_cast<double>(n);
    if (has_rope) {
      const auto ahead = mean_rotation(first + n, q.device());
      mean = at::matmul(mean, ahead.t()), covariance = at::matmul(at::matmul(ahead, covariance), ahead.t());
    }
    const double scale = info().attention_scale;
    auto without_softcap = info();  // which has no closed form
    without_softcap.logit_softcap = 0;
    auto weights = at::zeros({k.size(0), n}, k.options());
    for (int64_t i = 0; i < q.size(0); ++i) {
      const auto keys = k[i / group];
      const auto z =
          at::mv(keys, mean[i][0]) * scale + (at::mm(keys, covariance[i]) * keys).sum(1) * (scale * scale / 2);
      const auto none = at::zeros({1}, z.options().dtype(at::kBool));
      const auto of_head = kvc::attention_weights(z.view({1, 1, n}), none, without_softcap, i).view({n});
      weights[i / group] += of_head / static_cast<double>(group);
    }
    return weights;
  }

  // The mean of RoPE's rotations over `horizon` positions from `first` on, [D, D].
  at::Tensor mean_rotation(int64_t first, const at::Device& device) const {
    const auto ahead = angles(first, options_.horizon, device);
    const auto c = ahead.cos().mean(0).diag(), s = ahead.sin().mean(0).diag();
    const auto rotated = at::cat({at::cat({c, -s}, 1), at::cat({s, c}, 1)}, 0).to(at::kFloat);
    const int64_t n = rotated.size(0);
    auto all = at::eye(info().head_dim, rotated.options());
    all.narrow(0, 0, n).narrow(1, 0, n).copy_(rotated);
    return all;
  }

  const ExpectedAttentionOptions& options_;  // the compressor's
};

using ExpectedAttention = kvc::EvictingCompressor<ExpectedAttentionOptions, ExpectedAttentionCache>;

}  // namespace

KVC_PLUGIN(ExpectedAttentionOptions, ExpectedAttention, "expected_attention",
           "token eviction: keeps prompt tokens with high expected attention from later queries",
           "Devoto et al. 2025 (Expected Attention, arXiv 2510.00636)",
           "statistics use the model's queries, after its norm of Q if there is one; no layer is left "
           "out; all heads keep equally many; a softcap of scores is ignored in the expectation; the newest tokens "
           "have no privilege, as in the public code",
           {.evicts = true, .turns_keys = true, .formula = "kept tokens"})
