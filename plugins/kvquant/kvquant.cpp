// KVQuant: keys before RoPE per channel with static ranges, values per token with their own, a non-uniform codebook for
// each, outliers beside them (matrix.h), the first tokens exact. Here the ranges of K and both codebooks come from the
// sequence itself: tokens wait exactly until `calibration_tokens` of them are there, these calibrate and are encoded,
// and each later token is encoded as it comes.
// Bytes per layer once calibrated, M = H_kv*D channels, E encoded tokens of T, n outliers of K and V together:
//   2 * 4*E*ceil(M*b/32)  codes;  4*M + 4*E  zero and scale of K's channels and V's tokens;  4*n + 2 * 2*E  outliers;
//   2 * 2 * 2^b  levels (uniform: 0);  4*M*(T - E)  exact tokens
// precision exact: 4 bytes a float instead of 2.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/token_blocks.h>

#include <algorithm>

#include "matrix.h"
#include "rotation.h"

namespace {

struct KvquantOptions {
  int64_t bits = 4;
  std::string levels = "non_uniform";
  double sparsity = 0.01;
  int64_t first_tokens = 1;
  int64_t calibration_tokens = 64;
  std::string precision = "real";
  void visit(kvc::OptionVisitor& v) {
    v.integer_of("bits", bits, {2, 3, 4}, "bits per code");
    v.choice("levels", levels, {"non_uniform", "uniform"}, "k-means centroids, or evenly spaced");
    v.real("sparsity", sparsity, 0, 0.5, "fraction of outliers of a channel (K) or token (V), half on either side");
    v.integer("first_tokens", first_tokens, 0, kvc::kNoUpperLimit, "first tokens of the sequence, held exactly");
    v.integer("calibration_tokens", calibration_tokens, 1, kvc::kNoUpperLimit,
              "tokens that the sequence's ranges and levels come from, at least");
    v.choice("precision", precision, {"real", "exact"}, "all floats in fp16, or fp32 to compare with references");
  }
};

struct KvquantFormat {
  kvquant::Format matrix;
  int64_t first_tokens = 1, calibration_tokens = 64;
};

// [H, T, D] -> [T, H*D] and back
at::Tensor merged(const at::Tensor& x) { return x.transpose(0, 1).flatten(1).contiguous(); }
at::Tensor by_head(const at::Tensor& x, int64_t n_heads) {
  return x.unflatten(1, {n_heads, x.size(1) / n_heads}).transpose(0, 1).contiguous();
}

class KvquantCache final : public kvc::LayerCache {
 public:
  KvquantCache(const kvc::LayerInfo& info, const KvquantFormat& format)
      : LayerCache(info), format_(format), type_(kvc::storage_type(format.matrix.precision)) {}

  void append(const kvc::NewTokens& tokens) override {
    check_new_tokens(tokens);
    const int64_t n = tokens.k.size(1), n_first = std::clamp<int64_t>(format_.first_tokens - length(), 0, n);
    if (n_first > 0) {
      k_first_.push_back(tokens.k.narrow(1, 0, n_first));
      v_first_.push_back(tokens.v.narrow(1, 0, n_first));
    }
    if (n_first == n) return;
    k_waiting_.push_back(tokens.k.narrow(1, n_first, n - n_first));
    v_waiting_.push_back(tokens.v.narrow(1, n_first, n - n_first));
    if (k_.n_tokens() == 0 && k_waiting_.n_tokens() < format_.calibration_tokens) return;
    encode_waiting();
  }

  kvc::KeyValue dequantize() const override {
    std::vector<at::Tensor> k, v;  // each [H_kv, t, D]
    if (k_first_.n_tokens() > 0) k.push_back(k_first_.all()), v.push_back(v_first_.all());
    if (k_.n_tokens() > 0) {
      const auto& format = format_.matrix;
      const auto levels = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; };
      const auto keys = k_.dequantize(k_zero_.to(at::kFloat), k_scale_.to(at::kFloat), levels(k_levels_), format);
      k.push_back(kvquant::rotated(by_head(keys, info().n_kv_heads), k_first_.n_tokens(), info().rope_frequencies, 1));
      v.push_back(by_head(v_.dequantize(v_zero_.to(at::kFloat), v_scale_.to(at::kFloat), levels(v_levels_), format),
                          info().n_kv_heads));
    }
    if (k_waiting_.n_tokens() > 0) k.push_back(k_waiting_.all()), v.push_back(v_waiting_.all());
    return {at::cat(k, 1), at::cat(v, 1)};
  }
  int64_t length() const override { return k_first_.n_tokens() + k_.n_tokens() + k_waiting_.n_tokens(); }
  int64_t n_encoded_tokens() const override { return k_.n_tokens(); }

  kvc::Footprint footprint() const override {
    using kvc::ByteKind, kvc::CacheTensor;
    kvc::Footprint bytes;
    k_first_.add_to(bytes, CacheTensor::k), k_waiting_.add_to(bytes, CacheTensor::k);
    v_first_.add_to(bytes, CacheTensor::v), v_waiting_.add_to(bytes, CacheTensor::v);
    k_.add_to(bytes, CacheTensor::k), v_.add_to(bytes, CacheTensor::v);
    bytes.add(CacheTensor::k, ByteKind::zeros, k_zero_), bytes.add(CacheTensor::k, ByteKind::scales, k_scale_);
    bytes.add(CacheTensor::v, ByteKind::zeros, v_zero_), bytes.add(CacheTensor::v, ByteKind::scales, v_scale_);
    bytes.add(CacheTensor::k, ByteKind::codebook, k_levels_), bytes.add(CacheTensor::v, ByteKind::codebook, v_levels_);
    return bytes;
  }

 private:
  void encode_waiting() {
    const auto& format = format_.matrix;
    const int64_t n = k_waiting_.n_tokens(), first = k_first_.n_tokens() + k_.n_tokens();
    const auto k = merged(kvquant::rotated(k_waiting_.pop_front(n), first, info().rope_frequencies, -1));
    const auto v = merged(v_waiting_.pop_front(n));
    const auto v_range = range_of_tokens(v);
    if (k_.n_tokens() == 0) {
      const auto range = kvquant::range_of_columns(k, format);
      k_zero_ = range.zero.unsqueeze(0).to(type_), k_scale_ = range.scale.unsqueeze(0).to(type_);
      if (!format.uniform) k_levels_ = levels_for(k, range), v_levels_ = levels_for(v, v_range);
      k_.push_back(k, range, as_float(k_levels_), format);
    } else {
      k_.push_back(k, static_range(), as_float(k_levels_), format);
    }
    v_.push_back(v, v_range, as_float(v_levels_), format);
    const auto zero = v_range.zero.to(type_), scale = v_range.scale.to(type_);
    v_zero_ = v_zero_.defined() ? at::cat({v_zero_, zero}) : zero;
    v_scale_ = v_scale_.defined() ? at::cat({v_scale_, scale}) : scale;
  }

  static at::Tensor as_float(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

  // [t, 1] each
  kvquant::Range range_of_tokens(const at::Tensor& v) const {
    auto range = kvquant::range_of_columns(v.t().contiguous(), format_.matrix);
    for (auto* table : {&range.lower, &range.upper, &range.zero, &range.scale}) *table = table->unsqueeze(1);
    return range;
  }

  // What later keys are held against: the calibrated range, which an integer code leaves by half a step at most.
  kvquant::Range static_range() const {
    const auto zero = k_zero_.to(at::kFloat), scale = k_scale_.to(at::kFloat);
    if (!format_.matrix.uniform) return {zero - scale, zero + scale, zero, scale};
    const double steps = static_cast<double>((1 << format_.matrix.bits) - 1);
    return {zero - 0.5 * scale, zero + (steps + 0.5) * scale, zero, scale};
  }

  // Centroids of what is neither an outlier nor without extent.
  at::Tensor levels_for(const at::Tensor& x, const kvquant::Range& range) const {
    const auto inside = kvquant::outlier_mask(x, range.lower, range.upper, format_.matrix).logical_not();
    const auto z = ((x - range.zero) / range.scale).masked_select(inside.logical_and(range.scale.gt(0)));
    return kvquant::centroids(z, format_.matrix.bits).to(type_);
  }

  KvquantFormat format_;
  at::ScalarType type_;
  kvc::TokenBlocks k_first_{type_}, v_first_{type_}, k_waiting_{type_}, v_waiting_{type_};
  kvquant::Matrix k_, v_;
  at::Tensor k_zero_, k_scale_;     // [1, M]
  at::Tensor v_zero_, v_scale_;     // [E, 1]
  at::Tensor k_levels_, v_levels_;  // [2^b]; undefined where uniform
};

class Kvquant final : public kvc::Compressor {
 public:
  explicit Kvquant(const KvquantOptions& options) {
    format_.matrix = {.bits = options.bits,
                      .uniform = options.levels == "uniform",
                      .sparsity = options.sparsity,
                      .precision = kvc::precision_named(options.precision)};
    format_.first_tokens = options.first_tokens, format_.calibration_tokens = options.calibration_tokens;
  }

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.n_kv_heads * model.head_dim <= 65535, "kvquant: ", model.n_kv_heads * model.head_dim,
              " channels a token, outliers index up to 65535");
    KVC_CHECK(!model.has_rope || model.head_dim % 2 == 0, "kvquant: RoPE over an odd head_dim ", model.head_dim);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<KvquantCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(format_.matrix.bits); }

  // b bits a number and, for each outlier, a value and an index of 16 bits.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (bits() + 32 * format_.matrix.sparsity) / 8 * 2 *
           static_cast<double>(model.n_kv_heads * model.head_dim * (n_prompt_tokens + n_new_tokens));
  }

 private:
  KvquantFormat format_;
};

}  // namespace

KVC_PLUGIN(KvquantOptions, Kvquant, "kvquant", "keys before RoPE per channel, values per token, outliers apart",
           "Hooper et al. 2024 (KVQuant), sections 3.1 to 3.5, and its public code",
           "ranges and levels come from the sequence's own first tokens, not from calibration texts; k-means is not "
           "weighted by Fisher information; no Q-Norm; a token's outliers are not capped, each vector's are what lies "
           "beyond its quantiles; later keys outside the range are outliers",
           {.turns_keys = true})
