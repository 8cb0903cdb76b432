// Quanto as Hugging Face's QuantizedCache runs it: min-max groups, and all that is held encoded again each time the
// window of exact tokens is full (requantized_cache.h).
// Bytes per layer, n encoded tokens and m in the window: 2 (K, V) * (n_groups * (g*b/8 + 4) + 2 * H_kv*D*m), n_groups =
// ceil(H_kv*n*D / g) on axis 0, D * ceil(H_kv*n / g) on axis -1; precision exact: 8 and 4.
#include <kvc/plugin.h>
#include <kvc/quant/requantized_cache.h>
#include <kvc/quant/shared_options.h>

namespace {

struct QuantoOptions {
  int64_t bits = 4;
  int64_t axis_k = 0;
  int64_t axis_v = 0;
  int64_t group_size = 64;
  int64_t residual = 128;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer_of("axis_k", axis_k, {0, -1}, "groups of K: 0 neighbouring channels, -1 neighbouring tokens");
    v.integer_of("axis_v", axis_v, {0, -1}, "groups of V");
    kvc::visit_requantized(v, group_size, residual);
    kvc::visit_precision(v, precision, "scales, zeros, recent");
  }
};

kvc::GroupOrder order_of(int64_t axis) { return axis == 0 ? kvc::GroupOrder::flat : kvc::GroupOrder::rows; }

class Quanto final : public kvc::PartsCompressor {
 public:
  explicit Quanto(const QuantoOptions& options) : bits_(options.bits) {
    const kvc::GroupFormat groups{.bits = options.bits, .precision = options.precision};
    format_ = {.k = order_of(options.axis_k),
               .v = order_of(options.axis_v),
               .group_size = options.group_size,
               .window = options.residual,
               .precision = groups.precision,
               .encode = [groups](const at::Tensor& x) { return kvc::quantize_groups(x, groups); }};
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::RequantizedCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(bits_); }

  // TaDA's tables charge its Quanto rows (b + 2)/16 of the 16-bit bytes, whatever the group.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (bits() + 2) / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  int64_t bits_;
  kvc::RequantizedFormat format_;
};

}  // namespace

KVC_PLUGIN(QuantoOptions, Quanto, "quanto", "quantization: min-max groups; the whole cache is re-encoded at each flush",
           "Hugging Face transformers, QuantizedCache with backend quanto; optimum-quanto, MaxOptimizer",
           "an incomplete group is padded (the public code refuses); re-encoded values are decoded "
           "to fp32, not to 16 bits; a constant group has scale 0 (NaN in the public code); 8 bits are ours",
           {.splits = true, .chunked_prompt = true, .formula = "TaDA"})
