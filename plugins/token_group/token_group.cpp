// Per-token group quantization: groups of g channels of one head of one token, each token encoded when it is appended.
// Bytes per layer: 2 (K, V) * H_kv * T * (4 * ceil(D*b/32) codes + 2 * (D/g) scales + 2 * (D/g) zeros);
// precision exact holds scales and zeros at 4 bytes.
#include <kvc/plugin.h>
#include <kvc/quant/backbone.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/stored_cache.h>

namespace {

struct TokenGroupOptions {
  int64_t bits = 4;
  int64_t group_size = 64;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer("group_size", group_size, 1, kvc::kNoUpperLimit, "channels per scale and zero; divides head_dim");
    kvc::visit_precision(v, precision, "scales and zeros");
  }
};

class TokenGroup final : public kvc::PartsCompressor {
 public:
  explicit TokenGroup(const TokenGroupOptions& options)
      : backbone_(kvc::make_backbone("token_group", {.backbone = "token_group",
                                                     .bits = options.bits,
                                                     .group_size = options.group_size,
                                                     .precision = options.precision})) {}

  void check_model(const kvc::ModelShape& model) const override { backbone_.check_model("token_group", model); }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::StoredCache>(info, backbone_.k, backbone_.v);
  }
  double bits() const override { return static_cast<double>(backbone_.bits); }

  // GEAR's table: b/16 + 2/g + 64/n_prompt of the fp16 bytes. It charges a window of 64 tokens that this method lacks.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return backbone_.paper_fraction(model, n_prompt_tokens) * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  kvc::Backbone backbone_;
};

}  // namespace

KVC_PLUGIN(
    TokenGroupOptions, TokenGroup, "token_group", "quantization: per-token min-max in groups of channels",
    "Sheng et al. 2023 (FlexGen), group-wise quantization; GEAR's per-token Q",
    "the scale is stored, not its inverse; real precision encodes with the fp16-rounded scale and zero; a constant "
    "group has scale 0; no padding: group_size divides head_dim",
    {.one_by_one_same = true, .prefix_local = true, .splits = true, .chunked_prompt = true, .formula = "GEAR"})
