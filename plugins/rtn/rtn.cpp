// RTN: symmetric round to nearest, one step for all channels of all heads of a token (or for the whole prompt), each
// token encoded when it is appended. No window, no zero point; b = 2 has the three levels -1, 0, 1.
// Bytes per layer: 2 (K, V) * T * (H_kv * 4 * ceil(D*b/32) codes + 2 step); with scope tensor the prompt has one step.
// precision exact holds a step at 4 bytes.
#include <kvc/plugin.h>
#include <kvc/quant/compressed_attention.h>

#include <algorithm>

namespace {

struct RtnOptions {
  int64_t bits = 4;
  std::string scope = "token";
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 4, 8}, "bits per code");
    v.choice("scope", scope, {"token", "tensor"}, "what shares a step: a token, or the whole prompt (then each token)");
    v.choice("precision", precision, {"real", "exact"}, "steps in fp16, or fp32 to compare with references");
  }
};

class RtnCache final : public kvc::LayerCache {
 public:
  RtnCache(const kvc::LayerInfo& info, const kvc::GroupFormat& format) : LayerCache(info), format_(format) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    auto format = format_;
    format.merge_tokens = format_.merge_tokens && length() == 0;
    if (info().holds_k()) k_.codes.push_back(kvc::quantize_groups(tokens.k.to(at::kFloat), format));
    if (info().holds_v()) v_.codes.push_back(kvc::quantize_groups(tokens.v.to(at::kFloat), format));
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

class Rtn final : public kvc::Compressor {
 public:
  explicit Rtn(const RtnOptions& options)
      : format_{.bits = options.bits,
                .axis = kvc::GroupAxis::channels,
                .merge_heads = true,
                .precision = kvc::precision_named(options.precision),
                .symmetric = true,
                .merge_tokens = options.scope == "tensor"} {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<RtnCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(format_.bits); }

  // DecoQuant's table 2: b/16 of the fp16 bytes, steps not counted.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return bits() / 16 * 4 * static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  kvc::GroupFormat format_;
};

}  // namespace

KVC_PLUGIN(
    RtnOptions, Rtn, "rtn", "symmetric round to nearest, one step a token",
    "Liu et al. 2024 (DecoQuant), the baseline RTN of section 4 and table 2",
    "K is rounded after RoPE (the public scripts round the outputs of k_proj); weights stay as they are (W16A_); "
    "real precision encodes with the fp16-rounded step, clamped where that rounding would leave the code's range; "
    "scope tensor gives each new token a step of its own",
    {.splits = true})
