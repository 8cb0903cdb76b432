// RTN: symmetric round to nearest, one step for all channels of all heads of a token (or for the whole prompt), each
// token encoded when it is appended. No window, no zero point; b = 2 has the three levels -1, 0, 1.
// Bytes per layer: 2 (K, V) * T * (H_kv * 4 * ceil(D*b/32) codes + 2 step); with scope tensor the prompt has one step.
// precision exact holds a step at 4 bytes.
#include <kvc/plugin.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/stored_cache.h>

namespace {

struct RtnOptions {
  int64_t bits = 4;
  std::string scope = "token";
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.choice("scope", scope, {"token", "tensor"},
             "scope of a scale: a token, or the whole prompt (later tokens: each)");
    kvc::visit_precision(v, precision, "steps");
  }
};

class Rtn final : public kvc::PartsCompressor {
 public:
  explicit Rtn(const RtnOptions& options)
      : format_{.bits = options.bits,
                .axis = kvc::GroupAxis::channels,
                .merge_heads = true,
                .precision = options.precision,
                .symmetric = true,
                .merge_tokens = options.scope == "tensor"} {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::StoredCache>(info, format_, format_);
  }
  double bits() const override { return static_cast<double>(format_.bits); }

  // DecoQuant's table 2: b/16 of the fp16 bytes, steps not counted.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return bits() / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  kvc::GroupFormat format_;
};

}  // namespace

KVC_PLUGIN(
    RtnOptions, Rtn, "rtn", "quantization: symmetric round to nearest, one scale per token",
    "Liu et al. 2024 (DecoQuant), the baseline RTN of section 4 and table 2",
    "K is rounded after RoPE (the public scripts round the outputs of k_proj); weights are not quantized (W16A_); "
    "real precision encodes with the fp16-rounded step, clamped where that rounding would leave the code's range; "
    "scope tensor gives each new token a step of its own",
    {.splits = true, .chunked_prompt = true, .formula = "DecoQuant"})
