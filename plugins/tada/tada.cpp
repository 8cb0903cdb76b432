// TaDA: the mean over KV heads of each token (same channel) in 16 bits, and each head's deviation from it quantized,
// one group per token and head, with as many bits as the layer gets; the newest tokens exact. K and V alike:
//   D^i = X_m - X^i,   X^^i = X_m - Q_b(D^i).
// When `recent` tokens wait, the next one makes all of them be encoded; after the prompt n0 mod recent wait.
// Bytes per layer, n encoded tokens of T:
//   2 * (n * (2*D + H_kv * (4*ceil(D*b/32) + 4)) + 2 * H_kv * D * (T - n));
// precision exact: 4*D, 8 and 4 for the means, the step and minimum, and a recent number.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/tensor_pair_cache.h>

#include <numeric>

namespace {

struct TadaOptions {
  std::vector<int64_t> bits = {4};
  int64_t recent = 128;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    v.integers_of("bits", bits, {2, 4, 8},
                  "bits per code: one value for all layers, or one per layer from the first on");
    v.integer("recent", recent, 0, kvc::kNoUpperLimit,
              "newest tokens kept uncompressed, then compressed together; 0: none");
    kvc::visit_precision(v, precision, "means, scales, zeros, recent");
  }
};

// K or V of one layer.
class TadaTensor {
 public:
  TadaTensor(const kvc::GroupFormat& format, int64_t n_recent_most)
      : format_(format),
        n_recent_most_(n_recent_most),
        means_(kvc::storage_type(format.precision)),
        recent_(kvc::storage_type(format.precision)) {}

  void push_back(const at::Tensor& x) {  // [H, T, D]
    const bool prompt = n_tokens() == 0;
    recent_.push_back(x);
    // In decoding the newest token is never encoded by its own append, unless nothing may be recent.
    const int64_t n = n_recent() - (prompt || n_recent_most_ == 0 ? 0 : 1);
    encode_front(n_recent_most_ == 0 ? n : n - n % n_recent_most_);
  }

  int64_t n_encoded() const { return means_.n_tokens(); }
  int64_t n_tokens() const { return n_encoded() + n_recent(); }

  void score(kvc::CompressedAttention& attention) const {
    attention.score(means_, 0);
    for_each_block([&](const kvc::GroupCodes& block, int64_t first) { attention.score(block, first); });
    attention.score(recent_, n_encoded());
  }
  void accumulate_v(kvc::CompressedAttention& attention) const {
    attention.accumulate_v(means_, 0);
    for_each_block([&](const kvc::GroupCodes& block, int64_t first) { attention.accumulate_v(block, first); });
    attention.accumulate_v(recent_, n_encoded());
  }

  at::Tensor dequantize() const {  // [H, T, D] fp32
    std::vector<at::Tensor> parts;
    for_each_block([&](const kvc::GroupCodes& block, int64_t) { parts.push_back(block.dequantize()); });
    if (!parts.empty()) parts = {at::cat(parts, 1).add_(means_.all())};
    if (n_recent() > 0) parts.push_back(recent_.all());
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    means_.add_to(bytes, tensor, kvc::ByteKind::means);
    deviations_.add_to(bytes, tensor);
    recent_.add_to(bytes, tensor);
  }

 private:
  int64_t n_recent() const { return recent_.n_tokens(); }

  void encode_front(int64_t n) {  // the oldest n recent tokens
    if (n == 0) return;
    const auto x = recent_.pop_front(n);  // [H, n, D]
    const auto mean = x.mean(0, /*keepdim=*/true).to(kvc::storage_type(format_.precision));
    means_.push_back(mean);
    // The rounded mean is what the decoder has. The codes are those of D; stored is -Q(D), so that parts add up.
    auto codes = kvc::quantize_groups(mean.to(at::kFloat) - x, format_);
    codes.scale.neg_();
    codes.zero.neg_();
    deviations_.push_back(std::move(codes));
  }

  template <class F>
  void for_each_block(F f) const {
    int64_t first = 0;
    for (const auto& block : deviations_.blocks()) {
      f(block, first);
      first += block.n_tokens;
    }
  }

  kvc::GroupFormat format_;
  int64_t n_recent_most_;       // the next token makes this many be encoded; 0: none wait
  kvc::TokenBlocks means_;      // one head
  kvc::CodeBlocks deviations_;  // of as many tokens
  kvc::TokenBlocks recent_;
};

class Tada final : public kvc::PartsCompressor {
 public:
  explicit Tada(const TadaOptions& options)
      : bits_(options.bits), recent_(options.recent), precision_(options.precision) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.n_kv_heads > 1, "tada: the model has one KV head, whose mean is itself; allowed: 2 and more");
    KVC_CHECK(bits_.size() == 1 || static_cast<int64_t>(bits_.size()) == model.n_layers, "tada: bits name ",
              bits_.size(), " layers, the model has ", model.n_layers);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const auto layer = static_cast<size_t>(info.layer);
    KVC_CHECK(bits_.size() == 1 || layer < bits_.size(), "tada: bits name ", bits_.size(), " layers, this is layer ",
              info.layer);
    const kvc::GroupFormat format{.bits = bits_[bits_.size() == 1 ? 0 : layer],
                                  .group_size = info.head_dim,
                                  .axis = kvc::GroupAxis::channels,
                                  .precision = precision_};
    return std::make_unique<kvc::TensorPairCache<TadaTensor>>(info, TadaTensor(format, recent_),
                                                              TadaTensor(format, recent_));
  }
  double bits() const override {
    return static_cast<double>(std::accumulate(bits_.begin(), bits_.end(), int64_t{0})) /
           static_cast<double>(bits_.size());
  }

  // The paper's share of the fp16 bytes, mean over layers: 1/H + b/16 + 2/D. It leaves out the recent tokens.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double fraction =
        1.0 / static_cast<double>(model.n_kv_heads) + bits() / 16 + 2.0 / static_cast<double>(model.head_dim);
    return fraction * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  std::vector<int64_t> bits_;
  int64_t recent_;
  kvc::Precision precision_;
};

}  // namespace

KVC_PLUGIN(TadaOptions, Tada, "tada", "quantization: mean over heads in 16 bits, deviations quantized, bits per layer",
           "Joshi et al. 2025 (TaDA), sections 3.1 and 3.2",
           "the mean, where equations 1 and 2 print a sum; one group per token and head, asymmetric; deviations are "
           "taken from the rounded mean; a prompt leaves n0 mod recent tokens uncompressed; MQA is refused",
           {.one_by_one_same = true, .splits = true, .chunked_prompt = true, .formula = "TaDA"})
