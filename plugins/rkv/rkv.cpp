// R-KV: the cache of a model that thinks long is cut to `budget` tokens a KV head again and again while it decodes:
// once the prompt (or a chunk of it) is there, and after each `interval` new tokens, where more than `budget` are held.
// Of n held tokens the newest `window` w stay, and of the others those of highest
//   score = lambda * I - (1 - lambda) * R
//   I importance: a_it = max of scale * q_i k_t over the query heads of the KV head, for the w newest queries i;
//     softmax over the n - w tokens t (and the largest sink of these heads); mean over i; maximum over `kernel`
//     neighbours
//   R redundancy: S the cosines of all n keys, 0 on the diagonal; of each key's partners above `similarity` the latest
//     one's cosine with it becomes 0, so that of a set of similar tokens the latest counts least; mean over the keys;
//     softmax over all n
// Bytes per layer, m held tokens: H_kv * 4 * D * m, H_kv * 4 for each position of what the last eviction kept, and
// H_q * 2 * D * w for the queries; precision exact: twice as much, but for positions.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/evicting_compressor.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

namespace {

struct RkvOptions {
  int64_t budget = 128;
  int64_t interval = 128;
  int64_t window = 8;
  double lambda = 0.1;
  double similarity = 0.5;
  int64_t kernel = 7;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integer("budget", budget, 2, kvc::kNoUpperLimit, "tokens per head after an eviction, window included");
    v.integer("interval", interval, 1, kvc::kNoUpperLimit, "new tokens between evictions");
    v.integer("window", window, 1, kvc::kNoUpperLimit,
              "newest tokens, always kept, whose queries vote; less than budget");
    v.real("lambda", lambda, 0, 1, "weight of importance; the rest is the weight of redundancy");
    v.real("similarity", similarity, -1, 1, "cosine above which two keys are similar");
    v.integer("kernel", kernel, 1, 255, "width of max pooling of importance, in tokens; odd");
    kvc::visit_precision(v, precision, "tokens and queries");
  }

  void check() const {
    KVC_CHECK(window < budget, "rkv: window ", window, ", allowed: less than budget ", budget);
    KVC_CHECK(kernel % 2 == 1, "rkv: kernel ", kernel, ", allowed: odd numbers");
  }
  int64_t n_kept(int64_t n_prompt_tokens, int64_t n_new_tokens) const {
    const int64_t since = n_new_tokens > 0 ? (n_new_tokens - 1) % interval + 1 : 0;  // the last eviction
    return std::min(n_prompt_tokens + n_new_tokens - since, budget) + since;
  }
};

// q [H_q, w, D] at the last w positions, k [H_kv, n, D] of which `hidden` [H_kv, n] are not seen -> [H_kv, n - w]
at::Tensor importance(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden, const kvc::LayerInfo& info,
                      int64_t kernel) {
  const int64_t n_kv_heads = k.size(0), w = q.size(1), n = k.size(1) - w;
  const auto queries = q.to(at::kFloat).reshape({n_kv_heads, -1, k.size(2)});  // [H_kv, G * w, D]
  const auto scores = at::matmul(queries, k.narrow(1, 0, n).transpose(1, 2)).mul_(info.attention_scale);
  auto most = scores.view({n_kv_heads, -1, w, n}).amax(1);        // [H_kv, w, n]
  most.masked_fill_(hidden.narrow(1, 0, n).unsqueeze(1), -1e30);  // finite: they may be all there are
  auto of_group = info;                                           // with one sink for each KV head
  of_group.n_heads = n_kv_heads;
  if (info.sinks.defined()) of_group.sinks = info.sinks.view({n_kv_heads, -1}).amax(1);
  const auto none = at::zeros({1}, most.options().dtype(at::kBool));
  const auto mean = kvc::attention_weights(most, none, of_group).mean(1, /*keepdim=*/true);
  return at::max_pool1d(mean, kernel, 1, kernel / 2).squeeze(1);
}

// Mean over the keys k [n, D] of one head, some at a time, of their cosines with each: [n]
at::Tensor mean_cosines(const at::Tensor& k, double similarity) {
  const int64_t n = k.size(0), chunk = std::max<int64_t>(1, kvc::kMassBytes / (4 * n));
  const auto directions = k / k.norm(2, 1, /*keepdim=*/true).clamp_min(1e-8);
  const auto place = at::arange(n, k.options().dtype(at::kLong));
  auto sums = at::zeros({n}, k.options());
  for (int64_t i = 0; i < n; i += chunk) {
    const int64_t rows = std::min(chunk, n - i);
    auto cosines = at::matmul(directions.narrow(0, i, rows), directions.t());  // [rows, n]
    const auto own = place.narrow(0, i, rows).unsqueeze(1);
    cosines.scatter_(1, own, 0);
    const auto partners = cosines.gt(similarity).logical_and_(place.ne(own));
    const auto latest = at::where(partners, place, -1).amax(1, /*keepdim=*/true);
    cosines.scatter_(1, at::where(latest.ge(0), latest, own), 0);  // without partners: its own, which is 0
    sums.add_(cosines.sum(0));
  }
  return sums / n;
}

class RkvCache final : public kvc::EvictingCache {
 public:
  RkvCache(const kvc::LayerInfo& info, const RkvOptions& options)
      : EvictingCache(info, {.method = "rkv",
                             .ranking = kvc::Ranking::at_intervals,
                             .precision = options.precision,
                             .interval = options.interval,
                             .n_queries = options.window}),
        options_(options) {}

 private:
  kvc::TokenBudget budget(int64_t) const override {
    return {.ranked = options_.budget - options_.window, .recent = options_.window};
  }

  at::Tensor score(const kvc::NewTokens& held) const override {
    const int64_t n = held.k.size(1), w = options_.window;
    const auto k = held.k.to(at::kFloat), q = held.q.narrow(1, held.q.size(1) - w, w);
    const auto important = importance(q, k, hidden(k), info(), options_.kernel);
    auto scores = at::zeros({k.size(0), n}, k.options());
    for (int64_t h = 0; h < k.size(0); ++h) {
      const auto redundant = mean_cosines(k[h], options_.similarity).softmax(0).narrow(0, 0, n - w);
      scores[h].narrow(0, 0, n - w).copy_(important[h] * options_.lambda - redundant * (1 - options_.lambda));
    }
    return scores;
  }

  // Which keys lie before the model's sliding window, for the newest query: [H_kv, n]
  at::Tensor hidden(const at::Tensor& k) const {
    if (info().sliding_window == 0) return at::zeros({k.size(0), k.size(1)}, k.options().dtype(at::kBool));
    const bool prompt = length() == 0;
    const auto at =
        prompt ? at::arange(k.size(1), k.options().dtype(at::kLong)).expand({k.size(0), k.size(1)}) : positions();
    return at.lt((prompt ? k.size(1) : length()) - info().sliding_window);
  }

  const RkvOptions& options_;  // the compressor's
};

using Rkv = kvc::EvictingCompressor<RkvOptions, RkvCache>;

}  // namespace

KVC_PLUGIN(
    RkvOptions, Rkv, "rkv", "token eviction during decoding: keeps tokens that are attended to and not redundant",
    "Cai et al. 2025 (R-KV, arXiv 2505.24133)",
    "a key without similar ones takes nothing from others (in the public code the oldest token's cosine with it "
    "becomes 0); keys before the sliding window are not important; queries are stored in fp16, as tokens; tokens keep "
    "their positions; ties go to the older token; each chunk of a prompt ends an interval",
    {.evicts = true, .chunked_prompt = true, .formula = "R-KV"})
