// SnapKV: the last `window` queries of the prompt vote for its earlier tokens; each KV head keeps the winners and the
// window. Votes: softmax probabilities over the whole prompt, summed over the window's queries and the query heads of
// the KV head, then pooled over `kernel` neighbours, so that tokens around a peak stay with it. Only the prompt is
// compressed: every token after it is held exactly. A prompt of at most `capacity` tokens stays whole.
// Bytes per layer: H_kv * (4 * D * (min(n0, capacity) + n_new) + (n0 > capacity ? 4 * capacity positions : 0));
// precision exact: 8 * D.
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

namespace {

struct SnapKvOptions : kvc::VotingOptions {
  void visit(kvc::OptionVisitor& v) {
    v.integer("capacity", capacity, 2, kvc::kNoUpperLimit, "prompt tokens per head, window included");
    visit_votes(v);
  }

  void check() const { check_votes("snapkv"); }
};

class SnapKvCache final : public kvc::EvictingCache {
 public:
  SnapKvCache(const kvc::LayerInfo& info, const SnapKvOptions& options)
      : EvictingCache(info, {.method = "snapkv", .precision = options.precision}), options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t) const override {
    return {.ranked = options_.capacity - options_.votes.window, .recent = options_.votes.window};
  }

  at::Tensor score(const kvc::NewTokens& prompt) const override {
    return kvc::window_votes(prompt, info(), options_.votes);
  }

  const SnapKvOptions& options_;  // the compressor's
};

using SnapKv = kvc::EvictingCompressor<SnapKvOptions, SnapKvCache>;

}  // namespace

KVC_PLUGIN(SnapKvOptions, SnapKv, "snapkv", "token eviction: keeps prompt tokens that its last queries attend to",
           "Li et al. 2024 (SnapKV, arXiv 2404.14469), algorithm 1",
           "votes are summed over the query heads of a KV head (the public code repeats K and V for each); tokens keep "
           "their positions; ties go to the older token",
           {.evicts = true, .formula = "SnapKV"})
