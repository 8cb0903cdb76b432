// DuoAttention: each KV head is a retrieval head, which keeps all tokens, or a streaming head, which keeps the first
// `sinks` and the newest `recent`; a pattern says which (pattern.h). What is held is exact.
// Bytes per layer, R retrieval and S streaming heads, w = min(T, sinks + recent):
//   4 * D * (R * T + S * w), ragged as it is held; a cache of rows of one length would take 4 * D * (R + S) * T where
//   there is a retrieval head.   precision exact: 8.
// Heads do not change, so that both kinds are caches of their own; positions follow from the counts.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/evicting_cache.h>
#include <kvc/quant/shared_options.h>

#include <algorithm>

#include "pattern.h"

namespace {

struct DuoOptions {
  std::string pattern = "alternating";
  std::string select = "sparsity";
  double sparsity = 0.5, threshold = 0.5;
  int64_t sinks = 128, recent = 256;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.file("pattern", pattern, {"alternating"},
           "file of retrieval-head scores, one line per layer, one column per KV head; alternating: every other head");
    v.choice("select", select, {"sparsity", "threshold"}, "how streaming heads are selected from scores");
    v.real("sparsity", sparsity, 0.01, 1, "fraction of all KV heads that stream, lowest scores first");
    v.real("threshold", threshold, 0, 1, "lowest score of a retrieval head");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens that streaming heads keep");
    v.integer("recent", recent, 1, kvc::kNoUpperLimit, "newest tokens that streaming heads keep");
    kvc::visit_precision(v, precision, "tokens");
  }
};

// Some KV heads of a layer, all of one kind.
class HeadsCache final : public kvc::EvictingCache {
 public:
  HeadsCache(const kvc::LayerInfo& info, const kvc::TokenBudget& budget, kvc::Precision precision)
      : EvictingCache(info, {.method = "duoattention", .ranking = kvc::Ranking::none, .precision = precision}),
        budget_(budget) {}

 private:
  kvc::TokenBudget budget(int64_t) const override { return budget_; }

  kvc::TokenBudget budget_;
};

class DuoCache final : public kvc::LayerCache {
 public:
  DuoCache(const kvc::LayerInfo& info, const std::vector<bool>& retrieval, const DuoOptions& options)
      : LayerCache(info) {
    for (const bool keeps_all : {true, false}) {
      std::vector<int64_t> heads;
      for (int64_t h = 0; h < info.n_kv_heads; ++h) {
        if (retrieval[static_cast<size_t>(h)] == keeps_all) heads.push_back(h);
      }
      if (heads.empty()) continue;
      auto of_kind = info;
      of_kind.n_kv_heads = static_cast<int64_t>(heads.size());
      of_kind.n_heads = of_kind.n_kv_heads * (info.n_heads / info.n_kv_heads);
      if (info.sinks.defined()) of_kind.sinks = rows_of(info.sinks, heads, info.n_heads / info.n_kv_heads);
      const auto budget = keeps_all ? kvc::TokenBudget{.recent = kvc::kNoUpperLimit}
                                    : kvc::TokenBudget{.sinks = options.sinks, .recent = options.recent};
      kinds_.push_back(
          {std::move(heads), of_kind.sinks, std::make_unique<HeadsCache>(of_kind, budget, options.precision)});
    }
  }

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    for (const auto& kind : kinds_) {
      kind.cache->append({.q = {},
                          .k = rows_of(tokens.k, kind.heads, 1),
                          .v = rows_of(tokens.v, kind.heads, 1),
                          .first_position = tokens.first_position});
    }
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    auto out = at::empty(q.sizes(), q.options().dtype(at::kFloat));
    const int64_t group = info().n_heads / info().n_kv_heads;
    for (const auto& kind : kinds_) {
      put_rows(out, kind.heads, group, kind.cache->attend(rows_of(q, kind.heads, group), scale));
    }
    return out;
  }

  // Rows as long as the longest head's; what a head does not hold is 0, at position -1.
  kvc::KeyValue dequantize() const override {
    if (length() == 0) return {};
    auto k =
        at::zeros({info().n_kv_heads, n_rows(), info().head_dim}, at::TensorOptions(at::kFloat).device(info().device));
    auto v = at::zeros_like(k);
    for (const auto& kind : kinds_) {
      const auto held = kind.cache->dequantize();
      auto some_k = k.narrow(1, 0, held.k.size(1)), some_v = v.narrow(1, 0, held.v.size(1));
      put_rows(some_k, kind.heads, 1, held.k);
      put_rows(some_v, kind.heads, 1, held.v);
    }
    return {k, v};
  }

  at::Tensor positions() const override {
    auto all = at::full({info().n_kv_heads, n_rows()}, -1, at::TensorOptions(at::kLong).device(info().device));
    for (const auto& kind : kinds_) {
      const auto held = kind.cache->positions();
      auto some = all.narrow(1, 0, held.size(1));
      put_rows(some, kind.heads, 1, held);
    }
    return all;
  }

  int64_t length() const override { return kinds_.front().cache->length(); }
  // What at least one head has evicted.
  int64_t n_encoded_tokens() const override { return kinds_.back().cache->n_encoded_tokens(); }
  int64_t n_encoded_numbers() const override { return 0; }  // all that is held is exact

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    for (const auto& kind : kinds_) {
      bytes.add(kind.cache->footprint());
      bytes.add(kvc::CacheTensor::shared, kvc::ByteKind::parameters, kind.sinks);
    }
    return bytes;
  }

 private:
  struct Kind {
    std::vector<int64_t> heads;  // KV heads, ascending
    at::Tensor sinks;            // the model's of these heads, copied, or undefined
    std::unique_ptr<HeadsCache> cache;
  };

  // Of x [H * group, ..] the rows of these heads, copied.
  static at::Tensor rows_of(const at::Tensor& x, const std::vector<int64_t>& heads, int64_t group) {
    std::vector<at::Tensor> rows;
    for (const int64_t h : heads) rows.push_back(x.narrow(0, h * group, group));
    return at::cat(rows);
  }
  static void put_rows(at::Tensor& x, const std::vector<int64_t>& heads, int64_t group, const at::Tensor& rows) {
    for (size_t i = 0; i < heads.size(); ++i) {
      x.narrow(0, heads[i] * group, group).copy_(rows.narrow(0, static_cast<int64_t>(i) * group, group));
    }
  }

  int64_t n_rows() const {
    int64_t most = 0;
    for (const auto& kind : kinds_) most = std::max(most, kind.cache->length() - kind.cache->n_encoded_tokens());
    return most;
  }

  std::vector<Kind> kinds_;  // retrieval heads first; one or two
};

class Duo final : public kvc::Compressor {
 public:
  explicit Duo(const DuoOptions& options) : options_(options) {
    if (has_file()) heads_ = heads_of(duoattention::read_scores(options.pattern));
  }

  void check_model(const kvc::ModelShape& model) const override {
    if (!has_file()) return;
    KVC_CHECK(static_cast<int64_t>(heads_.size()) == model.n_layers &&
                  static_cast<int64_t>(heads_.front().size()) == model.n_kv_heads,
              "duoattention: pattern '", options_.pattern, "' is for ", heads_.size(), " layers of ",
              heads_.front().size(), " KV heads, the model has ", model.n_layers, " of ", model.n_kv_heads);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const auto heads = has_file() ? heads_ : heads_of(alternating(info.n_layers, info.n_kv_heads));
    KVC_CHECK(info.layer < static_cast<int64_t>(heads.size()) &&
                  info.n_kv_heads == static_cast<int64_t>(heads.front().size()),
              "duoattention: pattern '", options_.pattern, "' is for ", heads.size(), " layers of ",
              heads.front().size(), " KV heads, this is layer ", info.layer, " of ", info.n_kv_heads);
    return std::make_unique<DuoCache>(info, heads[static_cast<size_t>(info.layer)], options_);
  }
  double bits() const override { return kvc::bits_of(options_.precision); }

  // Retrieval heads at 16 bits, of streaming heads sinks and window; the mean over the model's layers.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const auto heads = has_file() ? heads_ : heads_of(alternating(model.n_layers, model.n_kv_heads));
    double n_all = 0, n_retrieval = 0;
    for (const auto& layer : heads) {
      n_all += static_cast<double>(layer.size());
      n_retrieval += static_cast<double>(std::count(layer.begin(), layer.end(), true));
    }
    const int64_t n = n_prompt_tokens + n_new_tokens, n_sinks = std::min(options_.sinks, n);
    const int64_t n_kept = n_sinks + std::min(options_.recent, n - n_sinks);
    const double share = n_retrieval / n_all;
    return share * kvc::fp16_bytes(model, n) + (1 - share) * kvc::fp16_bytes(model, n_kept);
  }

 private:
  bool has_file() const { return options_.pattern != "alternating"; }

  // No published pattern: in the last layer 0, 1, 0, 1 and so on, in the one before it 1, 0, 1, 0.
  static duoattention::Scores alternating(int64_t n_layers, int64_t n_kv_heads) {
    duoattention::Scores scores;
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      auto& row = scores.emplace_back();
      for (int64_t h = 0; h < n_kv_heads; ++h) row.push_back(static_cast<double>((n_layers - 1 - layer + h) % 2));
    }
    return scores;
  }
  duoattention::Heads heads_of(const duoattention::Scores& scores) const {
    return options_.select == "sparsity" ? duoattention::retrieval_by_sparsity(scores, options_.sparsity)
                                         : duoattention::retrieval_by_threshold(scores, options_.threshold);
  }

  DuoOptions options_;
  duoattention::Heads heads_;  // of the file
};

}  // namespace

KVC_PLUGIN(
    DuoOptions, Duo, "duoattention",
    "token eviction by head: retrieval heads keep all tokens, streaming heads sinks and recent tokens",
    "Xiao et al. 2024 (DuoAttention, arXiv 2410.10819), sections 2.2 and 2.4, and its public code",
    "a pattern is read, not trained; ties: the earlier head streams (random in the public code); a "
    "prompt attends to all its tokens, in streaming heads, too; without a file every other head streams, which is "
    "no published pattern",
    {.one_by_one_same = true, .evicts = true, .chunked_prompt = true, .formula = "DuoAttention"})
