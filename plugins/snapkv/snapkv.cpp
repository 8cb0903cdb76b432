// SnapKV: the last `window` queries of the prompt vote for its earlier tokens; each KV head keeps the winners and the
// window. Votes: softmax probabilities over the whole prompt, summed over the window's queries and the query heads of
// the KV head, then pooled over `kernel` neighbours, so that tokens around a peak stay with it. Only the prompt is
// compressed: every token after it is held exactly. A prompt of at most `capacity` tokens stays whole.
// Bytes per layer: H_kv * (4 * D * (min(n0, capacity) + n_new) + (n0 > capacity ? 4 * capacity positions : 0));
// precision exact: 8 * D.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/attention_mass.h>
#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/kept_tokens.h>

#include <algorithm>
#include <cmath>

namespace {

struct SnapKvOptions {
  int64_t capacity = 256;
  int64_t window = 32;
  int64_t kernel = 5;
  std::string pooling = "avg";
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer("capacity", capacity, 2, kvc::kNoUpperLimit,
              "tokens of the prompt that each head keeps, window included");
    v.integer("window", window, 1, kvc::kNoUpperLimit, "last tokens of the prompt, whose queries vote; below capacity");
    v.integer("kernel", kernel, 1, 255, "tokens that votes are pooled over; odd");
    v.choice("pooling", pooling, {"avg", "max"}, "how votes are pooled");
    v.choice("precision", precision, {"real", "exact"}, "tokens in fp16, or fp32 to compare with references");
  }
};

class SnapKvCache final : public kvc::LayerCache {
 public:
  SnapKvCache(const kvc::LayerInfo& info, const SnapKvOptions& options) : LayerCache(info), options_(options) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1);
    if (length_ == 0 && n > options_.capacity) {
      const auto kept = winners(tokens);
      k_.push_back(kvc::keep_rows(tokens.k.contiguous(), kept));
      v_.push_back(kvc::keep_rows(tokens.v.contiguous(), kept));
      kept_ = kept.to(info().device, at::kInt);
    } else {
      k_.push_back(tokens.k);
      v_.push_back(tokens.v);
    }
    length_ += n;
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!kvc::CompressedAttention::takes(q)) return LayerCache::attend(q, scale);
    kvc::CompressedAttention attention(q, scale, info(), k_.n_tokens());
    attention.score(k_, 0);
    attention.softmax(n_hidden());
    attention.weigh(v_, 0);
    return attention.out();
  }

  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }

  at::Tensor positions() const override {
    if (!kept_.defined()) return LayerCache::positions();
    const int64_t n_new = k_.n_tokens() - kept_.size(1);
    const auto later = at::arange(length_ - n_new, length_, at::TensorOptions(at::kLong).device(info().device));
    return at::cat({kept_.to(at::kLong), later.expand({kept_.size(0), n_new})}, 1);
  }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_ - k_.n_tokens(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    bytes.add(kvc::CacheTensor::shared, kvc::ByteKind::index, kept_);
    return bytes;
  }

 private:
  // [H_kv, capacity] int64, ascending: the best of the prompt before the window, and the window.
  at::Tensor winners(const kvc::NewTokens& tokens) const {
    const int64_t n = tokens.k.size(1), window = options_.window;
    KVC_CHECK(tokens.q.defined(), "snapkv: the last queries of the prompt vote, and there are no queries");
    KVC_CHECK(tokens.q.dim() == 3 && tokens.q.size(0) == info().n_heads && tokens.q.size(1) == n &&
                  tokens.q.size(2) == info().head_dim,
              "snapkv: q has shape ", tokens.q.sizes(), ", expected [", info().n_heads, ", ", n, ", ", info().head_dim,
              "]");
    const auto voters = tokens.q.narrow(1, n - window, window);
    KVC_CHECK(std::isfinite(voters.sum(at::kFloat).item<float>()), "snapkv: q of layer ", info().layer,
              " holds a value that is not finite");
    const double scale = 1 / std::sqrt(static_cast<double>(info().head_dim));
    const auto mass = kvc::attention_mass(voters, tokens.k, scale, info().sliding_window);
    const auto votes = mass.narrow(1, 0, n - window).unsqueeze(1);  // [H_kv, 1, n - window]
    const int64_t kernel = options_.kernel;
    const auto pooled = options_.pooling == "avg" ? at::avg_pool1d(votes, kernel, 1, kernel / 2)
                                                  : at::max_pool1d(votes, kernel, 1, kernel / 2);
    const auto all = at::cat({pooled.squeeze(1), mass.narrow(1, n - window, window)}, 1);
    return kvc::heaviest_and_recent(all, options_.capacity - window, window);
  }

  // Held tokens of each KV head before the model's sliding window.
  std::vector<int64_t> n_hidden() const {
    std::vector<int64_t> hidden(static_cast<size_t>(info().n_kv_heads), 0);
    const int64_t first_seen = info().sliding_window > 0 ? length_ - info().sliding_window : 0;
    if (first_seen <= 0) return hidden;
    const auto counts = positions().lt(first_seen).sum(1).cpu();
    for (size_t h = 0; h < hidden.size(); ++h) hidden[h] = counts.const_data_ptr<int64_t>()[h];
    return hidden;
  }

  SnapKvOptions options_;
  kvc::TokenBlocks k_{kvc::storage_type(kvc::precision_named(options_.precision))};
  kvc::TokenBlocks v_{kvc::storage_type(kvc::precision_named(options_.precision))};
  at::Tensor kept_;  // [H_kv, capacity] int32: positions of the prompt's tokens, once some are evicted
  int64_t length_ = 0;
};

class SnapKv final : public kvc::Compressor {
 public:
  explicit SnapKv(const SnapKvOptions& options) : options_(options) {
    KVC_CHECK(options.window < options.capacity, "snapkv: window ", options.window, ", allowed: less than capacity ",
              options.capacity);
    KVC_CHECK(options.kernel % 2 == 1, "snapkv: kernel ", options.kernel, ", allowed: odd numbers");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<SnapKvCache>(info, options_);
  }
  double bits() const override { return options_.precision == "real" ? 16 : 32; }

  // The prompt's budget and all new tokens at 16 bits; the paper counts no positions.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n_held = std::min(n_prompt_tokens, options_.capacity) + n_new_tokens;
    return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * n_held);
  }

 private:
  SnapKvOptions options_;
};

}  // namespace

KVC_PLUGIN(SnapKvOptions, SnapKv, "snapkv", "the prompt's tokens that its last queries attend to, the rest evicted",
           "Li et al. 2024 (SnapKV, arXiv 2404.14469), algorithm 1",
           "votes are summed over the query heads of a KV head (the public code repeats K and V for each); tokens keep "
           "their positions; of equal votes the older token stays",
           {.evicts = true})
