// HQQ as Hugging Face's QuantizedCache runs it: groups whose zero point is optimized (solver.h), and all that is held
// encoded again each time the window of exact tokens is full (requantized_cache.h).
// Bytes per layer, n encoded tokens and m in the window: 2 (K, V) * (ceil(H_kv*n*D / g) * (g*b/8 + 4) + 2 * H_kv*D*m);
// precision exact: 8 and 4.
#include <kvc/plugin.h>
#include <kvc/quant/requantized_cache.h>
#include <kvc/quant/shared_options.h>

#include "solver.h"

namespace {

struct HqqOptions {
  int64_t bits = 4;
  int64_t axis_k = 0;
  int64_t axis_v = 0;
  int64_t group_size = 64;
  int64_t residual = 128;
  int64_t iterations = 20;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer_of("axis_k", axis_k, {0, 1}, "groups of K: 0: values at a distance, 1: neighbouring channels");
    v.integer_of("axis_v", axis_v, {0, 1}, "groups of V");
    kvc::visit_requantized(v, group_size, residual);
    v.integer("iterations", iterations, 0, 1000, "most optimization steps of the zero point; 0: plain min-max");
    kvc::visit_precision(v, precision, "scales, zeros, recent");
  }
};

kvc::GroupOrder order_of(int64_t axis) { return axis == 1 ? kvc::GroupOrder::flat : kvc::GroupOrder::strided; }

class Hqq final : public kvc::PartsCompressor {
 public:
  explicit Hqq(const HqqOptions& options) : options_(options) {
    format_ = {.k = order_of(options.axis_k),
               .v = order_of(options.axis_v),
               .group_size = options.group_size,
               .window = options.residual,
               .precision = options.precision,
               .encode = [options](const at::Tensor& x) {
                 return hqq::quantize(x, options.bits, options.iterations, options.precision);
               }};
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::RequantizedCache>(info, format_);
  }
  double bits() const override { return static_cast<double>(options_.bits); }

  // No paper measures it on caches; its own count: (b + 32/g)/16 of the 16-bit bytes.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return (bits() + 32.0 / static_cast<double>(options_.group_size)) / 16 *
           kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  HqqOptions options_;
  kvc::RequantizedFormat format_;
};

}  // namespace

KVC_PLUGIN(HqqOptions, Hqq, "hqq",
           "quantization: groups with an optimized zero point; the whole cache is re-encoded at each flush",
           "Badri and Shaji 2023 (HQQ); Hugging Face transformers, QuantizedCache with backend HQQ",
           "an incomplete group is padded (the public code refuses); zero is stored as -zero/scale; real "
           "precision encodes with the fp16-rounded pair; re-encoded values are decoded to fp32, not to 16 bits; 1 and "
           "3 bits are left out",
           {.splits = true, .chunked_prompt = true, .formula = "HQQ"})
