// KVzip: after the prefill the model is asked to repeat the prompt, chunk by chunk, and a KV pair's score is the most
// attention that it receives from any query of that, over the query heads of its KV head. Of the pairs of all layers
// and heads together the share `keep` with the highest scores stays, and of each head the first `sinks` tokens; all
// later tokens do. For a prompt of n0 tokens in L layers of H heads that is P = max(round(keep * L*H*n0),
// L*H*min(sinks, n0)) pairs. Bytes of all layers: P * (4 * D + 4 positions) + L * H * 4 * D * n_new; precision exact: 8
// * D.
#include <ATen/ATen.h>
#include <kvc/joint_prefill.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/ragged_cache.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

struct KvZipOptions {
  double keep = 0.3;
  int64_t sinks = 4, chunk = 2048, lead_in = 8;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.real("keep", keep, 0, 1, "fraction of the prompt's KV pairs to keep, over all layers and heads");
    v.integer("sinks", sinks, 1, kvc::kNoUpperLimit, "first tokens that every head keeps, within that fraction");
    v.integer("chunk", chunk, 1, kvc::kNoUpperLimit, "prompt tokens repeated per chunk");
    v.integer("lead_in", lead_in, 0, kvc::kNoUpperLimit, "tokens before a later chunk that mark its start");
    kvc::visit_precision(v, precision, "tokens");
  }
};

// The most that any of the queries gives to each key of the chunk, [n] fp32: softmax over the sinks before the chunk,
// the chunk, and the pass's keys up to the query's own. q: [G, n_pass, D] of one KV head, the query heads from
// first_head on; keys: [n_sinks + n + n_pass, D].
at::Tensor most_received(const at::Tensor& q, const at::Tensor& keys, int64_t n_sinks, int64_t n,
                         const kvc::LayerInfo& info, int64_t first_head) {
  const int64_t n_pass = q.size(1), rows = std::max<int64_t>(1, kvc::kMassBytes / (4 * keys.size(0)));
  auto most = at::zeros({n}, q.options());
  for (int64_t h = 0; h < q.size(0); ++h) {
    for (int64_t row = 0; row < n_pass; row += rows) {
      const int64_t n_rows = std::min(rows, n_pass - row);
      const auto scores = at::matmul(q[h].narrow(0, row, n_rows), keys.t()).mul_(info.attention_scale).unsqueeze(0);
      auto later = at::zeros({n_rows, keys.size(0)}, scores.options().dtype(at::kBool));
      later.narrow(1, n_sinks + n, n_pass).fill_(true).triu_(row + 1);
      const auto weights = kvc::attention_weights(scores, later, info, first_head + h)[0];
      most = at::maximum(most, weights.narrow(1, n_sinks, n).amax(0));
    }
  }
  return most;
}

class KvZipCache final : public kvc::RaggedCache {
 public:
  KvZipCache(const kvc::LayerInfo& info, const KvZipOptions& options)
      : RaggedCache(info, options.precision), options_(options) {}

  void observe(const kvc::ObservedChunk& chunk) {
    KVC_CHECK(chunk.q.defined(), "kvzip: layer ", info().layer, " observes tokens ", chunk.first_token, " to ",
              chunk.first_token + chunk.n_tokens - 1, " without queries, which scores need");
    const int64_t n_heads = info().n_kv_heads, n_sinks = std::min(options_.sinks, chunk.first_token);
    if (!scores_.defined()) scores_ = at::zeros({n_heads, length()}, chunk.q.options().dtype(at::kFloat));
    const auto q = chunk.q.to(at::kFloat).unflatten(0, {n_heads, -1});
    for (int64_t h = 0; h < n_heads; ++h) {
      const auto prompt = chunk.prompt_k[h];
      const auto keys =
          at::cat({prompt.narrow(0, 0, n_sinks), prompt.narrow(0, chunk.first_token, chunk.n_tokens), chunk.k[h]})
              .to(at::kFloat);
      scores_[h]
          .narrow(0, chunk.first_token, chunk.n_tokens)
          .copy_(most_received(q[h], keys, n_sinks, chunk.n_tokens, info(), h * q.size(1)));
    }
    n_observed_ += chunk.n_tokens;
  }

  // [H_kv, n0] on the CPU; the first tokens are above all others.
  at::Tensor ranks() const {
    KVC_CHECK(n_observed_ == length(), "kvzip: layer ", info().layer, " observed ", n_observed_, " of ", length(),
              " tokens, expected all");
    auto ranks = scores_.to(at::kCPU, at::kFloat, false, true);
    ranks.narrow(1, 0, std::min(options_.sinks, length())).fill_(std::numeric_limits<float>::infinity());
    return ranks;
  }

  void keep(const at::Tensor& kept) {
    scores_.reset();
    if (!kept.all().item<bool>()) evict(kept);
  }

  kvc::Footprint footprint() const override {
    auto bytes = RaggedCache::footprint();
    bytes.add(kvc::CacheTensor::shared, kvc::ByteKind::scores, scores_);
    return bytes;
  }

 private:
  at::Tensor keeps(const kvc::NewTokens&) const override { return {}; }

  const KvZipOptions& options_;  // the compressor's
  at::Tensor scores_;            // [H_kv, n0] fp32, from the observation to the end of the prefill
  int64_t n_observed_ = 0;
};

KvZipCache& ours(kvc::LayerCache& cache) { return dynamic_cast<KvZipCache&>(cache); }

class KvZip final : public kvc::PartsCompressor, public kvc::ObservationPass {
 public:
  explicit KvZip(const KvZipOptions& options) : options_(options) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<KvZipCache>(info, options_);
  }
  double bits() const override { return kvc::bits_of(options_.precision); }

  // The layers' mean at 16 bits; the paper counts no positions.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n_heads = model.n_layers * model.n_kv_heads;
    const auto n_kept = n_kept_of(n_heads * n_prompt_tokens, n_heads * std::min(options_.sinks, n_prompt_tokens));
    return 4.0 * static_cast<double>(model.head_dim * n_kept) / static_cast<double>(model.n_layers) +
           kvc::fp16_bytes(model, n_new_tokens);
  }

  kvc::Observation observation() const override {
    return {.before_first = "\n\nRepeat the previous context exactly.",
            .before_next = "\n\nRepeat the part of the previous context exactly, starting with ",
            .before_chunk = "\n",
            .chunk_tokens = options_.chunk,
            .lead_in_tokens = options_.lead_in};
  }
  void observe(kvc::LayerCache& cache, const kvc::ObservedChunk& chunk) const override { ours(cache).observe(chunk); }

  // Of equal scores the older token stays, then the lower layer's and head's. A layer with a sliding window has only the
  // prompt's last tokens: rows are aligned at the end, and what is missing has no rank.
  void finish_prefill(std::span<kvc::LayerCache* const> caches) const override {
    std::vector<at::Tensor> ranks;
    int64_t n = 0, n_pairs = 0, n_sinks = 0;
    for (auto* cache : caches) {
      ranks.push_back(ours(*cache).ranks());
      n = std::max(n, ranks.back().size(1));
      n_pairs += ranks.back().numel();
      n_sinks += ranks.back().size(0) * std::min(options_.sinks, ranks.back().size(1));
    }
    std::vector<at::Tensor> rows;
    for (const auto& x : ranks) {
      rows.push_back(at::constant_pad_nd(x, {n - x.size(1), 0}, -std::numeric_limits<float>::infinity()));
    }
    const auto all = at::cat(rows);  // [heads of all layers, n]
    const auto order = std::get<1>(all.t().flatten().sort(/*stable=*/true, 0, /*descending=*/true));
    auto kept = at::zeros({n, all.size(0)}, at::kBool);
    kept.view(-1).index_fill_(0, order.narrow(0, 0, n_kept_of(n_pairs, n_sinks)), true);
    int64_t first = 0;
    for (size_t i = 0; i < caches.size(); ++i) {
      const int64_t n_heads = ranks[i].size(0), n_own = ranks[i].size(1);
      ours(*caches[i]).keep(kept.narrow(1, first, n_heads).narrow(0, n - n_own, n_own).t());
      first += n_heads;
    }
  }

 private:
  int64_t n_kept_of(int64_t n_pairs, int64_t n_sinks) const {
    return std::max<int64_t>(std::llround(options_.keep * static_cast<double>(n_pairs)), n_sinks);
  }

  KvZipOptions options_;
};

}  // namespace

KVC_PLUGIN(KvZipOptions, KvZip, "kvzip",
           "token eviction: keeps KV pairs needed to repeat the prompt, one budget for all layers",
           "Kim et al. 2025 (KVzip, arXiv 2505.23416)",
           "the whole prompt is scored and the first tokens are kept (the authors' code scores what follows a system "
           "prompt, which it keeps; kvpress keeps 4 tokens, as here); '\\n' replaces the end of the user's turn; "
           "softmax in fp32; ties go to the older token; scores ignore a sliding window",
           {.evicts = true})
