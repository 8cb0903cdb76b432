// H2O: each KV head keeps its heavy hitters, the tokens that received most attention so far, and the newest tokens; the
// rest is evicted for good. Attention received is summed over all queries and over the query heads of a KV head; the
// prompt's is exact causal softmax of its own queries, a step's is over what is held. Budgets are shares of the prompt:
//   recent = max(4, int(recent_ratio * n0)), heavy = int(heavy_ratio * n0).
// As in the public code a step appends, attends, then evicts: its eviction waits for the next append. A prompt in
// chunks is evicted after each, n0 being the tokens so far, by the attention that tokens received in the cache.
// Bytes per layer, m held tokens: H_kv * m * (4 * D + 4 positions + 4 scores), m = min(T, heavy + recent + (1 in
// decoding));   precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

namespace {

constexpr int64_t kLeastRecent = 4;  // so that short prompts are not evicted to nothing

struct H2oOptions {
  double heavy_ratio = 0.25;
  double recent_ratio = 0.25;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.real("heavy_ratio", heavy_ratio, 0, 1, "heavy hitters to keep, as a fraction of the prompt");
    v.real("recent_ratio", recent_ratio, 0, 1, "newest tokens to keep, as a fraction of the prompt; at least 4");
    kvc::visit_precision(v, precision, "tokens");
  }

  void check() const {}
  kvc::TokenBudget budget(int64_t n_prompt_tokens) const {
    const auto share = [&](double ratio) { return static_cast<int64_t>(ratio * static_cast<double>(n_prompt_tokens)); };
    return {.ranked = share(heavy_ratio), .recent = std::max(kLeastRecent, share(recent_ratio))};
  }
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const {
    const auto budgets = budget(n_prompt_tokens);
    return std::min(n_prompt_tokens + n_new_tokens, budgets.ranked + budgets.recent);
  }
};

class H2oCache final : public kvc::EvictingCache {
 public:
  H2oCache(const kvc::LayerInfo& info, const H2oOptions& options)
      : EvictingCache(info, {.method = "h2o", .ranking = kvc::Ranking::always, .precision = options.precision}),
        options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t n_prompt_tokens) const override { return options_.budget(n_prompt_tokens); }
  at::Tensor score(const kvc::NewTokens& prompt) const override {
    return kvc::attention_mass(prompt.q, prompt.k, info());
  }
  at::Tensor rescore(const at::Tensor& scores, const kvc::NewTokens& tokens) const override {
    return scores + received(tokens.q);
  }

  const H2oOptions& options_;  // the compressor's
};

class H2o final : public kvc::EvictingCompressor<H2oOptions, H2oCache> {
 public:
  using EvictingCompressor::EvictingCompressor;

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim <= 1024, "h2o: head_dim ", model.head_dim, ", allowed: up to 1024");
  }
};

}  // namespace

KVC_PLUGIN(
    H2oOptions, H2o, "h2o", "token eviction: keeps heavy hitters (accumulated attention) and recent tokens",
    "Zhang et al. 2023 (H2O), algorithm 1",
    "scores are summed over the query heads of a KV head; budgets are fractions of the prompt, at least 4 recent "
    "tokens; tokens keep their positions; ties go to the older token; a prompt in chunks is evicted after each one, by "
    "the attention that was received in the cache",
    {.evicts = true, .chunked_prompt = true, .formula = "H2O"})
