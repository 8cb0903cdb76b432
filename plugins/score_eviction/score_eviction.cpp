// Eviction of the prompt's tokens by one simple score, once the prompt (or a chunk of it) is there; each KV head keeps
// those of highest score, the first `sinks` and the newest `recent`. Every token after the prompt is stored uncompressed.
//   knorm     -|k|: keys of low norm draw attention whatever the query
//   keydiff   -cos(k, a), a the mean of the prompt's keys, each of length 1: keys that are like no other
//   tova      the attention of the prompt's last query, the mean over all query heads: heads keep the same tokens
//   random    drawn from the seed: what a method has to beat
// Bytes per layer, n0 prompt tokens of which m stay (`capacity`, else `keep` of n0):
//   H_kv * (4 * D * (m + n_new) + (n0 > m ? 4 * m positions : 0));   precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/keyed_generator.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>
#include <cmath>

namespace {

struct ScoreEvictionOptions {
  std::string score = "knorm";
  double keep = 0.5;
  int64_t capacity = 0;
  int64_t sinks = 4;
  int64_t recent = 16;
  int64_t seed = 0;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.choice("score", score, {"knorm", "keydiff", "tova", "random"}, "score by which tokens are ranked");
    v.real("keep", keep, 0, 1, "fraction of prompt tokens to keep, sinks and recent included");
    v.integer("capacity", capacity, 0, kvc::kNoUpperLimit, "prompt tokens to keep, instead of keep; 0: use keep");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, always kept");
    v.integer("recent", recent, 1, kvc::kNoUpperLimit, "last tokens of the prompt, always kept");
    v.integer("seed", seed, 0, kvc::kNoUpperLimit, "seed of score random");
    kvc::visit_precision(v, precision, "tokens");
  }

  // Of a prompt of n tokens; never fewer than stay whatever their score.
  int64_t n_kept(int64_t n) const {
    const auto wanted = capacity > 0 ? capacity : std::llround(keep * static_cast<double>(n));
    return std::min(n, std::max<int64_t>(wanted, recent));
  }
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const { return n_kept(n_prompt_tokens) + n_new_tokens; }

  void check() const {
    KVC_CHECK(capacity == 0 || capacity >= recent, "score_eviction: capacity ", capacity, ", allowed: recent ", recent,
              " and more, or 0 for keep");
    KVC_CHECK(capacity > 0 || keep > 0, "score_eviction: keep 0, allowed: above 0 to 1");
  }
};

class ScoreEvictionCache final : public kvc::EvictingCache {
 public:
  ScoreEvictionCache(const kvc::LayerInfo& info, const ScoreEvictionOptions& options)
      : EvictingCache(
            info,
            {.method = "score_eviction", .precision = options.precision, .reads_queries = options.score == "tova"}),
        options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t n) const override {
    const int64_t kept = options_.n_kept(n), recent = std::min(options_.recent, kept);
    const int64_t sinks = std::min(options_.sinks, kept - recent);
    return {.sinks = sinks, .ranked = kept - recent - sinks, .recent = recent};
  }

  at::Tensor score(const kvc::NewTokens& prompt) const override {
    const auto k = prompt.k.to(at::kFloat);
    if (options_.score == "knorm") return k.norm(2, 2).neg();
    if (options_.score == "keydiff") return likeness(k).neg();
    if (options_.score == "tova") return attention_of_last(prompt);
    return drawn(k);
  }

  // Cosine of each key and the mean of all, each of length 1: [H_kv, T]
  static at::Tensor likeness(const at::Tensor& k) {
    const auto directions = k / k.norm(2, 2, /*keepdim=*/true).clamp_min(1e-12);
    const auto anchor = directions.mean(1, /*keepdim=*/true);
    return (directions * anchor).sum(2) / anchor.norm(2, 2).clamp_min(1e-12);
  }

  at::Tensor attention_of_last(const kvc::NewTokens& prompt) const {
    const auto last = prompt.q.narrow(1, prompt.q.size(1) - 1, 1);
    const auto mass = kvc::attention_mass(last, prompt.k, info(), length() == 0 ? at::Tensor() : positions());
    return mass.mean(0, /*keepdim=*/true).expand({mass.size(0), mass.size(1)});
  }

  at::Tensor drawn(const at::Tensor& k) const {
    auto generator =
        kvc::keyed_generator(static_cast<uint64_t>(options_.seed), info().sequence_key, info().layer, /*block=*/0);
    const at::TensorOptions floats(at::kFloat);
    if (length() == 0) return at::rand({k.size(0), k.size(1)}, generator, floats).to(k.device());
    // After a chunk: a token's number is the same whatever follows it.
    return at::rand({length(), k.size(0)}, generator, floats).t().to(k.device()).gather(1, positions());
  }

  const ScoreEvictionOptions& options_;  // the compressor's
};

using ScoreEviction = kvc::EvictingCompressor<ScoreEvictionOptions, ScoreEvictionCache>;

}  // namespace

KVC_PLUGIN(
    ScoreEvictionOptions, ScoreEviction, "score_eviction",
    "token eviction by a simple score: key norm, key similarity, the last query's attention, or random",
    "Devoto et al. 2024 (knorm, arXiv 2406.11430); Park et al. 2025 (KeyDiff, arXiv 2504.15364); Oren et al. 2024 "
    "(TOVA, arXiv 2401.06104)",
    "tokens are evicted once, after the prompt (TOVA and KeyDiff evict while decoding, too); sinks and recent "
    "tokens are always kept; no layers are left out (the paper of knorm leaves out the first two); a prompt in chunks "
    "is evicted after each one, of what is held then",
    {.evicts = true, .chunked_prompt = true, .formula = "kept tokens"})
