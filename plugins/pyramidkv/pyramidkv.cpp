// PyramidKV: SnapKV with a budget that falls from layer to layer, since attention spreads over many tokens in the first
// layers and gathers on few in the last. With capacity c as the layers' mean, window w, L layers and prompts of n
// tokens, layer l keeps, beside the window, of ranked tokens
//   max - l * (max - min) / (L - 1),   min = (c - w) / beta,   max = 2 * (c - w) - min,
// rounded half to even; where max exceeds the n - w tokens there are, max = n - w and min = 2 * (c - w) - max. A prompt
// of at most c tokens stays whole. Bytes per layer: SnapKV's, with that layer's budget.
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>
#include <cmath>

namespace {

struct PyramidKvOptions : kvc::VotingOptions {
  int64_t beta = 20;
  void visit(kvc::OptionVisitor& v) {
    v.integer("capacity", capacity, 2, kvc::kNoUpperLimit,
              "prompt tokens per head, averaged over layers, window included");
    v.integer("beta", beta, 1, 1000, "the last layer's budget is 1/beta of the mean; 1: equal layers, as SnapKV");
    visit_votes(v);
  }

  void check() const { check_votes("pyramidkv"); }
};

class PyramidKvCache final : public kvc::EvictingCache {
 public:
  PyramidKvCache(const kvc::LayerInfo& info, const PyramidKvOptions& options)
      : EvictingCache(info, {.method = "pyramidkv", .precision = options.precision}), options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t n_prompt_tokens) const override {
    const int64_t window = options_.votes.window;
    if (n_prompt_tokens <= options_.capacity) return {.ranked = n_prompt_tokens, .recent = window};
    const auto mean = static_cast<double>(options_.capacity - window);
    const double most = std::min(2 * mean - std::floor(mean / static_cast<double>(options_.beta)),
                                 static_cast<double>(n_prompt_tokens - window));
    const double depth =
        info().n_layers > 1 ? static_cast<double>(info().layer) / static_cast<double>(info().n_layers - 1) : 0.5;
    return {.ranked = static_cast<int64_t>(std::nearbyint(most - depth * 2 * (most - mean))), .recent = window};
  }

  at::Tensor score(const kvc::NewTokens& prompt) const override {
    return kvc::window_votes(prompt, info(), options_.votes);
  }

  const PyramidKvOptions& options_;  // the compressor's
};

using PyramidKv = kvc::EvictingCompressor<PyramidKvOptions, PyramidKvCache>;

}  // namespace

KVC_PLUGIN(
    PyramidKvOptions, PyramidKv, "pyramidkv",
    "token eviction: SnapKV with budgets that decrease from the first layer to the last",
    "Cai et al. 2024 (PyramidKV, arXiv 2406.02069)",
    "budgets are rounded half to even (the public code steps down by whole tokens and misses the mean); votes are "
    "summed over the query heads of a KV head; tokens keep their positions; ties go to the older token",
    {.evicts = true, .formula = "SnapKV"})
