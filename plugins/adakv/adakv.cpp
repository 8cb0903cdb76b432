// Ada-KV: SnapKV's votes, but the KV heads of a layer share one budget. With capacity c and window w, of a prompt
// longer than c each of the H heads keeps its window and the floor(floor * (c - w)) tokens before it that have most
// votes; the rest of the H * (c - w) go to the tokens with most votes in any head. So a head whose attention spreads
// keeps more than one whose attention gathers, and the layer holds what SnapKV would. A prompt of at most c tokens
// stays whole; all later tokens do. Bytes per layer: H_kv * (4 * D * (min(n0, c) + n_new) + (n0 > c ? 4 * c positions :
// 0)); precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/kept_tokens.h>
#include <kvc/quant/ragged_cache.h>
#include <kvc/quant/shared_options.h>

#include <cmath>
#include <limits>

namespace {

struct AdaKvOptions : kvc::VotingOptions {
  double floor = 0.2;
  void visit(kvc::OptionVisitor& v) {
    v.integer("capacity", capacity, 2, kvc::kNoUpperLimit,
              "prompt tokens per head, averaged over a layer's heads, window included");
    v.real("floor", floor, 0, 1, "fraction of capacity - window guaranteed to every head; 1: equal heads, as SnapKV");
    visit_votes(v);
  }

  void check() const { check_votes("adakv"); }
};

// The `share * H` tokens of most votes [H, n] that leave no head with fewer than `least`: [H, n] bool. Of equal votes
// the older token stays, then the lower head's.
at::Tensor winners(const at::Tensor& votes, int64_t share, int64_t least) {
  const int64_t n_heads = votes.size(0);
  auto raised = votes.cpu().contiguous().clone();
  raised.scatter_(1, kvc::heaviest_and_recent(raised, least, 0), std::numeric_limits<float>::infinity());
  const auto order = std::get<1>(raised.t().flatten().sort(/*stable=*/true, 0, /*descending=*/true));
  auto kept = at::zeros({votes.size(1), n_heads}, at::kBool);
  kept.view(-1).index_fill_(0, order.narrow(0, 0, share * n_heads), true);
  return kept.t();
}

class AdaKvCache final : public kvc::RaggedCache {
 public:
  AdaKvCache(const kvc::LayerInfo& info, const AdaKvOptions& options)
      : RaggedCache(info, options.precision), options_(options) {}

 private:
  at::Tensor keeps(const kvc::NewTokens& prompt) const override {
    const int64_t n = prompt.k.size(1), window = options_.votes.window, share = options_.capacity - window;
    if (n <= options_.capacity) return {};
    kvc::check_queries("adakv", prompt, info());
    const auto votes = kvc::window_votes(prompt, info(), options_.votes).narrow(1, 0, n - window);
    const auto least = static_cast<int64_t>(std::floor(options_.floor * static_cast<double>(share)));
    return at::cat({winners(votes, share, least), at::ones({votes.size(0), window}, at::kBool)}, 1);
  }

  const AdaKvOptions& options_;  // the compressor's
};

using AdaKv = kvc::EvictingCompressor<AdaKvOptions, AdaKvCache>;

}  // namespace

KVC_PLUGIN(AdaKvOptions, AdaKv, "adakv",
           "token eviction: SnapKV with one budget per layer, shared by its KV heads, and a minimum per head",
           "Feng et al. 2024 (Ada-KV, arXiv 2407.11550)",
           "each head keeps its floor, one top-k over all heads selects the rest (the public code mixes: "
           "(1 - floor) of the head's share of the top-k and floor of an equal share); votes are summed over the query "
           "heads of a KV head; tokens keep their positions; ties go to the older token",
           {.evicts = true, .formula = "SnapKV"})
