// Attention sinks and recent tokens: the first `sinks` tokens and the newest `recent` are held exactly, what lies
// between them is evicted for good. A query sees what is held, itself among the recent.
// Bytes per layer: 4 * H_kv * D * min(T, sinks + recent);   precision exact: 8. Positions follow from the counts.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>

#include <algorithm>

namespace {

struct WindowOptions {
  int64_t sinks = 4;
  int64_t recent = 252;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens that are never evicted");
    v.integer("recent", recent, 1, kvc::kNoUpperLimit, "newest tokens held");
    v.choice("precision", precision, {"real", "exact"}, "tokens in fp16, or fp32 to compare with references");
  }
};

class WindowCache final : public kvc::LayerCache {
 public:
  WindowCache(const kvc::LayerInfo& info, const WindowOptions& options)
      : LayerCache(info), options_(options), type_(kvc::storage_type(kvc::precision_named(options.precision))) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1), n_sinks = std::min(n, options_.sinks - k_.sinks.n_tokens());
    const int64_t n_recent = std::min(n - n_sinks, options_.recent);
    k_.take(tokens.k, n_sinks, n_recent, options_.recent);
    v_.take(tokens.v, n_sinks, n_recent, options_.recent);
    length_ += n;
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    if (!kvc::CompressedAttention::takes(q)) return LayerCache::attend(q, scale);
    const int64_t n_sinks = k_.sinks.n_tokens();
    kvc::CompressedAttention attention(q, scale, info(), n_held());
    attention.score(k_.sinks, 0);
    attention.score(k_.recent, n_sinks);
    attention.softmax(std::vector<int64_t>(static_cast<size_t>(info().n_kv_heads), n_hidden()));
    attention.weigh(v_.sinks, 0);
    attention.weigh(v_.recent, n_sinks);
    return attention.out();
  }

  kvc::KeyValue dequantize() const override { return {k_.all(), v_.all()}; }

  at::Tensor positions() const override {
    const auto options = at::TensorOptions(at::kLong).device(info().device);
    const auto held = at::cat(
        {at::arange(k_.sinks.n_tokens(), options), at::arange(length_ - k_.recent.n_tokens(), length_, options)});
    return held.expand({info().n_kv_heads, n_held()});
  }
  int64_t length() const override { return length_; }
  int64_t n_encoded_tokens() const override { return length_ - n_held(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  struct Held {
    explicit Held(at::ScalarType type) : sinks(type), recent(type) {}
    kvc::TokenBlocks sinks, recent;

    // x [H, T, D]: the first n_sinks are sinks, the last n_recent go to a window of at most `window`.
    void take(const at::Tensor& x, int64_t n_sinks, int64_t n_recent, int64_t window) {
      if (n_sinks > 0) sinks.push_back(x.narrow(1, 0, n_sinks));
      if (n_recent == 0) return;
      const int64_t n_evicted = recent.n_tokens() + n_recent - window;
      if (n_evicted > 0) recent.pop_front(n_evicted);
      recent.push_back(x.narrow(1, x.size(1) - n_recent, n_recent));
    }
    at::Tensor all() const {
      if (sinks.n_tokens() == 0) return recent.all();
      return recent.n_tokens() == 0 ? sinks.all() : at::cat({sinks.all(), recent.all()}, 1);
    }
    void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
      sinks.add_to(bytes, tensor);
      recent.add_to(bytes, tensor);
    }
  };

  int64_t n_held() const { return k_.sinks.n_tokens() + k_.recent.n_tokens(); }

  // Held tokens before the model's sliding window.
  int64_t n_hidden() const {
    if (info().sliding_window == 0) return 0;
    const int64_t first_seen = std::max<int64_t>(0, length_ - info().sliding_window);
    const int64_t first_recent = length_ - k_.recent.n_tokens();
    return std::min(first_seen, k_.sinks.n_tokens()) + std::max<int64_t>(0, first_seen - first_recent);
  }

  WindowOptions options_;
  at::ScalarType type_;
  Held k_{type_}, v_{type_};
  int64_t length_ = 0;
};

class Window final : public kvc::Compressor {
 public:
  explicit Window(const WindowOptions& options) : options_(options) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<WindowCache>(info, options_);
  }
  double bits() const override { return options_.precision == "real" ? 16 : 32; }

  // Sinks and window of the fp16 cache.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double n_tokens = static_cast<double>(n_prompt_tokens + n_new_tokens);
    const double n_held = static_cast<double>(options_.sinks) + static_cast<double>(options_.recent);
    return 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim) * std::min(n_tokens, n_held);
  }

 private:
  WindowOptions options_;
};

}  // namespace

KVC_PLUGIN(WindowOptions, Window, "window", "attention sinks and recent tokens exact, the rest evicted",
           "Xiao et al. 2023 (StreamingLLM), section 3.2",
           "tokens keep the positions of the text (the paper renumbers them within the cache); a token is evicted when "
           "the next is appended, so a query sees `recent` tokens, itself included",
           {.one_by_one_same = true, .evicts = true})
