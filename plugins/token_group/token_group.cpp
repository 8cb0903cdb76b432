// Per-token group quantization: groups of g channels of one head of one token, each token encoded when it is appended.
// Bytes per layer: 2 (K, V) * H_kv * T * (4 * ceil(D*b/32) codes + 2 * (D/g) scales + 2 * (D/g) zeros);
// precision exact holds scales and zeros at 4 bytes.
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>

#include <algorithm>

namespace {

struct TokenGroupOptions {
  int64_t bits = 4;
  int64_t group_size = 64;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 4, 8}, "bits per code");
    v.integer("group_size", group_size, 1, kvc::kNoUpperLimit,
              "channels that share one scale and zero; divides head_dim");
    v.choice("precision", precision, {"real", "exact"}, "scales and zeros in fp16, or fp32 to compare with references");
  }
};

class TokenGroupCache final : public kvc::LayerCache {
 public:
  TokenGroupCache(const kvc::LayerInfo& info, const kvc::GroupFormat& format) : LayerCache(info), format_(format) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    if (info().holds_k()) k_.codes.push_back(kvc::quantize_groups(tokens.k.to(at::kFloat), format_));
    if (info().holds_v()) v_.codes.push_back(kvc::quantize_groups(tokens.v.to(at::kFloat), format_));
  }

  at::Tensor attend(const at::Tensor& q, double scale) const override {
    return kvc::CompressedAttention::takes(q) ? kvc::attend_stored(q, scale, info(), k_, v_) : LayerCache::attend(q, scale);
  }

  kvc::KeyValue dequantize() const override { return {k_.dequantize(), v_.dequantize()}; }
  int64_t length() const override { return std::max(k_.n_tokens(), v_.n_tokens()); }
  int64_t n_encoded_tokens() const override { return length(); }

  kvc::Footprint footprint() const override {
    kvc::Footprint bytes;
    k_.add_to(bytes, kvc::CacheTensor::k);
    v_.add_to(bytes, kvc::CacheTensor::v);
    return bytes;
  }

 private:
  kvc::GroupFormat format_;
  kvc::StoredTokens k_{format_.precision}, v_{format_.precision};  // without recent tokens
};

class TokenGroup final : public kvc::Compressor {
 public:
  explicit TokenGroup(const TokenGroupOptions& options)
      : format_{.bits = options.bits,
                .group_size = options.group_size,
                .axis = kvc::GroupAxis::channels,
                .precision = kvc::precision_named(options.precision)} {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim % format_.group_size == 0, "token_group: group_size ", format_.group_size,
              " does not divide head_dim ", model.head_dim);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<TokenGroupCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(format_.bits); }

  // GEAR's table: b/16 + 2/g + 64/n_prompt of the fp16 bytes. It charges a window of 64 tokens that this method lacks.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double fraction = bits() / 16 + 2.0 / static_cast<double>(format_.group_size) +
                            64.0 / static_cast<double>(std::max<int64_t>(n_prompt_tokens, 1));
    return fraction * 4.0 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  kvc::GroupFormat format_;
};

}  // namespace

KVC_PLUGIN(
    TokenGroupOptions, TokenGroup, "token_group", "per-token min-max quantization in groups of channels",
    "Sheng et al. 2023 (FlexGen), group-wise quantization; GEAR's per-token Q",
    "the scale is stored, not its inverse; real precision encodes with the fp16-rounded scale and zero; a constant "
    "group has scale 0; no padding: group_size divides head_dim",
    {.one_by_one_same = true, .prefix_local = true, .splits = true})
