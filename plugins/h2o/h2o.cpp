// H2O: each KV head keeps its heavy hitters, the tokens that received most attention so far, and the newest tokens; the
// rest is evicted for good. Attention received is summed over all queries and over the query heads of a KV head; the
// prompt's is exact causal softmax of its own queries, a step's is over what is held. Budgets are shares of the prompt:
//   recent = max(4, int(recent_ratio * n0)), heavy = int(heavy_ratio * n0).
// As in the public code a step appends, attends, then evicts: its eviction waits for the next append.
// Bytes per layer, m held tokens: H_kv * m * (4 * D + 4 positions + 4 scores), m = min(T, heavy + recent + (1 in
// decoding));   precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/kept_tokens.h>

#include <algorithm>
#include <cmath>

namespace {

constexpr int64_t kLeastRecent = 4;  // so that short prompts are not evicted to nothing

struct H2oOptions {
  double heavy_ratio = 0.25;
  double recent_ratio = 0.25;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.real("heavy_ratio", heavy_ratio, 0, 1, "heavy hitters held, as a share of the prompt's tokens");
    v.real("recent_ratio", recent_ratio, 0, 1, "newest tokens held, as a share of the prompt's tokens; at least 4");
    v.choice("precision", precision, {"real", "exact"}, "tokens in fp16, or fp32 to compare with references");
  }
};

struct Budget {
  int64_t heavy, recent;
};

Budget budget_of(const H2oOptions& options, int64_t n_prompt_tokens) {
  const auto share = [&](double ratio) { return static_cast<int64_t>(ratio * static_cast<double>(n_prompt_tokens)); };
  return {share(options.heavy_ratio), std::max(kLeastRecent, share(options.recent_ratio))};
}

class H2oCache final : public kvc::LayerCache {
 public:
  H2oCache(const kvc::LayerInfo& info, const H2oOptions& options)
      : LayerCache(info), options_(options), held_(kvc::precision_named(options.precision)) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1);
    KVC_CHECK(tokens.q.defined(), "h2o: ranks tokens by attention, and there are no queries");
    KVC_CHECK(tokens.q.dim() == 3 && tokens.q.size(0) == info().n_heads && tokens.q.size(1) == n &&
                  tokens.q.size(2) == info().head_dim,
              "h2o: q has shape ", tokens.q.sizes(), ", expected [", info().n_heads, ", ", n, ", ", info().head_dim,
              "]");
    KVC_CHECK(std::isfinite(tokens.q.sum(at::kFloat).item<float>()), "h2o: q of layer ", info().layer,
              " holds a value that is not finite");
    if (length_ == 0) return take_prompt(tokens);
    for (int64_t t = 0; t < n; ++t) {
      take_step(tokens.q.narrow(1, t, 1), tokens.k.narrow(1, t, 1), tokens.v.narrow(1, t, 1));
    }
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!kvc::CompressedAttention::takes(q)) return LayerCache::attend(q, scale);
    auto step = scored(q, scale);
    attention.weigh(held_.v(), 0);
    return attention.out();
  }

  kvc::KeyValue dequantize() const override { return held_.dequantize(); }
  at::Tensor positions() const override { return held_.positions(); }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_ - held_.n_tokens(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    held_.add_to(bytes);
    bytes.add(kvc::CacheTensor::shared, kvc::ByteKind::scores, scores_);
    return bytes;
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(info().head_dim)); }  // the decoders' own

  void take_prompt(const kvc::NewTokens& tokens) {
    budget_ = budget_of(options_, tokens.k.size(1));
    const auto mass = kvc::attention_mass(tokens.q, tokens.k, scale(), info().sliding_window);
    const auto kept = kvc::heaviest_and_recent(mass, budget_.heavy, budget_.recent);
    held_.start(tokens.k, tokens.v, kept);
    scores_ = kvc::keep_rows(mass.unsqueeze(2), kept).squeeze(2);
    length_ = tokens.k.size(1);
  }

  void take_step(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto kept = kvc::heaviest_and_recent(scores_, budget_.heavy, budget_.recent);
    held_.keep_and_push(kept, k, v, length_++);
    scores_ = kvc::keep_rows(scores_.unsqueeze(2), kept, 1).squeeze(2);
    scores_.narrow(1, kept.size(1), 1).zero_();
    scores_ += received(q);
  }

  // What one query gives each held token, summed over the query heads of a KV head: [H_kv, n]
  at::Tensor received(const at::Tensor& q) const {
    KVC_CHECK(kvc::CompressedAttention::takes(q), "h2o: decodes on the CPU only, head_dim at most 1024");
    const auto weights = scored(q, scale()).weights();
    return weights.view({info().n_kv_heads, -1, held_.n_tokens()}).sum(1);
  }

  kvc::CompressedAttention scored(const at::Tensor& q, double scale) const {
    kvc::CompressedAttention attention(q, scale, info(), held_.n_tokens());
    attention.score(held_.k(), 0);
    attention.softmax(held_.n_hidden(length_, info().sliding_window));
    return step;
  }

  H2oOptions options_;
  Budget budget_{0, 0};
  kvc::KeptTokens held_;
  at::Tensor scores_;  // [H_kv, n] fp32
  int64_t length_ = 0;
};

class H2o final : public kvc::Compressor {
 public:
  explicit H2o(const H2oOptions& options) : options_(options) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim <= 1024, "h2o: head_dim ", model.head_dim, ", allowed: up to 1024");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<H2oCache>(info, options_);
  }
  double bits() const override { return options_.precision == "real" ? 16 : 32; }

  // The budgets' K and V at 16 bits; the paper counts neither scores nor positions.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const auto budget = budget_of(options_, n_prompt_tokens);
    const int64_t n_held = std::min(n_prompt_tokens + n_new_tokens, budget.heavy + budget.recent);
    return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * n_held);
  }

 private:
  H2oOptions options_;
};

}  // namespace

KVC_PLUGIN(H2oOptions, H2o, "h2o", "heavy hitters by accumulated attention and recent tokens, the rest evicted",
           "Zhang et al. 2023 (H2O), algorithm 1",
           "scores are summed over the query heads of a KV head; budgets are shares of the prompt, at least 4 recent "
           "tokens; tokens keep their positions; of equal scores the older token stays",
           {.evicts = true})
