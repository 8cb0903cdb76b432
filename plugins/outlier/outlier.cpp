// Outlier-aware quantization: X^ = D^ + S, GEAR without its low-rank part. S takes the k smallest and k largest entries
// of each vector: of K each channel along a chunk's tokens, of V each token along the channels of all heads.
// New tokens wait exactly in a buffer of nb; when it is full and the next token comes, K and V are encoded together as
// an immutable chunk. The prompt is one chunk (backbone kcvt), or its largest multiple of nb is (token_group, kivi).
// Count: k = round(s * length / 2), half to even, at most length / 2; it may be 0. The effective s is 2k / length.
// Bytes per layer: for each chunk of n tokens
//   codes: kivi K: H_kv*D*(n*b/8 + 4*n/g);  kivi V, token_group K and V: H_kv*n*(4*ceil(D*b/32) + 4*D/g)
//          kcvt K: H_kv*D*(4*ceil(n*b/32) + 4);  kcvt V: n*(H_kv*4*ceil(D*b/32) + 4)
//   S:     K 2k*H_kv*D*(2 + i), k of n;  V 2k*n*(2 + i), k of H_kv*D;  i = 1 up to vectors of 256, else 2
// plus 4*H_kv*D a token in the buffer.
#include <kvc/plugin.h>
#include <kvc/quant/backbone.h>
#include <kvc/quant/chunked_cache.h>
#include <kvc/quant/shared_options.h>

namespace {

struct OutlierOptions : kvc::BackboneOptions {
  OutlierOptions() { backbone = "kivi", bits = 2; }
  double sparsity = 0.02;
  void visit(kvc::OptionVisitor& v) {
    visit_codes(v, {"token_group", "kcvt", "kivi"}, "base quantizer, without the outliers", {16, 32, 64, 128, 256});
    v.real("sparsity", sparsity, 0, 1,
           "s: the round(s*length/2) smallest and largest values of each vector are outliers");
    visit_buffer_and_fill(v);
    kvc::visit_precision(v, precision, "all floats");
  }
};

class OutlierCache final : public kvc::ChunkedCache {
 public:
  OutlierCache(const kvc::LayerInfo& info, const OutlierOptions& options, const kvc::Backbone& backbone)
      : ChunkedCache(info, backbone.buffer, backbone.prompt_unit, options.precision),
        options_(options),
        backbone_(backbone) {}

 private:
  std::pair<kvc::CorrectedCodes, kvc::CorrectedCodes> encode(const at::Tensor& k, const at::Tensor& v, int64_t,
                                                             bool) const override {
    return {part(k, backbone_.k, kvc::GroupAxis::tokens), part(v, backbone_.v, kvc::GroupAxis::channels)};
  }

  kvc::CorrectedCodes part(const at::Tensor& x, const kvc::GroupFormat& groups, kvc::GroupAxis axis) const {
    if (!x.defined()) return {};
    const kvc::CorrectionFormat format{
        .groups = groups, .fill = kvc::fill_named(options_.fill), .precision = groups.precision};
    at::Generator none;  // rank 0 draws nothing
    return kvc::encode_corrected(x, kvc::find_outliers(x, options_.sparsity, axis), format, none);
  }

  const OutlierOptions& options_;  // the compressor's
  const kvc::Backbone& backbone_;
};

class Outlier final : public kvc::PartsCompressor {
 public:
  explicit Outlier(const OutlierOptions& options)
      : options_(options), backbone_(kvc::make_backbone("outlier", options)) {}

  void check_model(const kvc::ModelShape& model) const override {
    backbone_.check_model("outlier", model);
    KVC_CHECK(options_.sparsity == 0 || model.n_kv_heads * model.head_dim <= 65536,
              "outlier: ", model.n_kv_heads * model.head_dim, " channels per token, outlier indices allow up to 65536");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<OutlierCache>(info, options_, backbone_);
  }
  double bits() const override { return static_cast<double>(backbone_.bits); }

  // GEAR's table 8: the backbone's form + 1.5 s of the fp16 bytes (3.0 points at s = 2%: a value and an 8-bit index).
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (backbone_.paper_fraction(model, n_prompt_tokens) + 1.5 * options_.sparsity) *
           kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  OutlierOptions options_;
  kvc::Backbone backbone_;
};

}  // namespace

KVC_PLUGIN(
    OutlierOptions, Outlier, "outlier", "quantization: base quantizer + outliers of each vector",
    "Kang et al. 2024 (GEAR), section 3 (the sparse part) and table 8 (outlier-aware quantization)",
    "outliers are excluded from minimum and maximum (fill masked) and stored as differences; K's are counted by the "
    "chunk's tokens (the public code counts by the token's width); half counts round to even and may be 0; each "
    "part of a prompt in chunks is a chunk of its own",
    {.splits = true, .chunked_prompt = true, .formula = "GEAR"})
