// FP8: one byte a number, one fp32 scale for each head of K and of V, fixed by the prompt:
//   scale = headroom * max |x| / largest over the prompt's tokens of the head, or of all heads with granularity tensor;
//           or max |x| / largest over a calibration's texts; or 1 with scale one
//   x^ = scale * fp8(x / scale);   largest: 448 of e4m3, 57344 of e5m2
// Tokens beyond largest * scale saturate. Bytes per layer: 2 (K, V) * (H_kv*D*T + 4*H_kv).
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/largest_magnitudes.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/small_floats.h>
#include <kvc/quant/tensor_pair_cache.h>
#include <kvc/quant/token_blocks.h>

namespace {

struct Fp8Options {
  double headroom = 2;
  std::string scale = "prompt", granularity = "head", format = "e4m3", calibration = "none";
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_headroom(v, headroom);
    v.choice("scale", scale, {"prompt", "one"}, "scale of each head: from the prompt, or 1 (uncalibrated)");
    v.choice("granularity", granularity, {"head", "tensor"}, "what one scale from the prompt is for");
    v.choice("format", format, {"e4m3", "e5m2"}, "bits of exponent and fraction");
    v.file("calibration", calibration, {"none"}, "scales from a file of kvc calibrate, without headroom");
  }
  bool is_calibrated() const { return calibration != "none"; }
  kvc::Float8 type() const { return format == "e4m3" ? kvc::Float8::e4m3 : kvc::Float8::e5m2; }
};

// K or V.
class Fp8Tokens {
 public:
  // top [H_kv, 1, 1] fp32: magnitudes that become fp8's largest number; undefined: the prompt's times the headroom
  Fp8Tokens(const Fp8Options& options, const at::Tensor& top) : options_(options), top_(top) {}

  void push_back(const at::Tensor& x) {
    if (!scale_.defined()) scale_ = scale_of(x);
    codes_.push_float8(options_.type(), x, scale_);
  }

  int64_t n_tokens() const { return codes_.n_tokens(); }
  int64_t droppable(int64_t n_tokens) const { return codes_.droppable(n_tokens); }
  void drop_front(int64_t n_tokens) { codes_.drop_front(n_tokens); }

  template <class F>
  void for_each_block(F f) const {
    int64_t first = 0;
    for (const auto& block : codes_.blocks()) {
      f(kvc::LevelCodes{.codes = block, .scale = scale_, .floats = options_.type(), .head_dim = block.size(2)}, first);
      first += block.size(1);
    }
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, kvc::ByteKind::codes);
    bytes.add(tensor, kvc::ByteKind::scales, scale_);
  }

 private:
  at::Tensor scale_of(const at::Tensor& x) const {
    auto top = top_.defined() ? top_.to(x.device()) : kvc::largest_of_heads(x);
    if (options_.scale == "one") return at::ones_like(top);
    if (options_.granularity == "tensor") top = top.amax().expand(top.sizes()).contiguous();
    const double headroom = top_.defined() ? 1 : options_.headroom;
    return (top * (headroom / kvc::largest_of(options_.type()))).clamp_min_(1e-30).masked_fill_(top == 0, 1);
  }

  Fp8Options options_;
  at::Tensor top_;
  kvc::TokenBlocks codes_{at::kByte, 64};
  at::Tensor scale_;  // [H, 1, 1] fp32
};

using Fp8Tensor = kvc::BlockwiseTensor<Fp8Tokens>;

class Fp8 final : public kvc::PartsCompressor, public kvc::Calibrated {
 public:
  explicit Fp8(const Fp8Options& options) : options_(options) {
    KVC_CHECK(!options.is_calibrated() || options.scale != "one", "fp8: scale one with calibration '",
              options.calibration, "', expected one of the two");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const auto top_of = [&](const at::Tensor& learned) {
      return options_.is_calibrated() ? learned[info.layer].view({-1, 1, 1}) : at::Tensor();
    };
    return std::make_unique<kvc::TensorPairCache<Fp8Tensor>>(info, Fp8Tensor(options_, top_of(learned_.k)),
                                                             Fp8Tensor(options_, top_of(learned_.v)));
  }
  double bits() const override { return 8; }

  std::string calibration_file() const override { return options_.is_calibrated() ? options_.calibration : ""; }
  std::vector<std::string> calibrated_options() const override { return {}; }
  std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model) const override {
    return kvc::learn_largest_magnitudes(model);
  }
  void load(const kvc::ModelShape& model, const kvc::NamedTensors& tensors) override {
    learned_ = kvc::largest_magnitudes("fp8", model, tensors);
  }

  // Half of 16 bits; scales are not counted.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 0.5 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  Fp8Options options_;
  kvc::LargestMagnitudes learned_;  // from the calibration
};

}  // namespace

KVC_PLUGIN(
    Fp8Options, Fp8, "fp8", "8-bit floats (e4m3 or e5m2), one scale per head",
    "OCP 8-bit Floating Point Specification (OFP8) 1.0; Micikevicius et al. 2022",
    "without a calibration file the scale comes from the prompt, and leaves room for larger tokens; larger values "
    "saturate",
    {.splits = true, .chunked_prompt = true, .formula = "OCP FP8"})
