// FP8: one byte a number, one fp32 scale for each head of K and of V, fixed by the prompt:
//   scale = headroom * max |x| / largest over the prompt's tokens of the head, or of all heads with granularity tensor;
//           or 1 with scale one; largest: 448 of e4m3, 57344 of e5m2
//   x^ = scale * fp8(x / scale)
// Later tokens beyond largest * scale saturate. Bytes per layer: 2 (K, V) * (H_kv*D*T + 4*H_kv).
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/level_cache.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/small_floats.h>
#include <kvc/quant/token_blocks.h>

namespace {

struct Fp8Options {
  double headroom = 2;
  std::string scale = "prompt", granularity = "head", format = "e4m3";
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_headroom(v, headroom);
    v.choice("scale", scale, {"prompt", "one"}, "scale of each head: from the prompt, or 1 (uncalibrated)");
    v.choice("granularity", granularity, {"head", "tensor"}, "what one scale from the prompt is for");
    v.choice("format", format, {"e4m3", "e5m2"}, "bits of exponent and fraction");
  }
  kvc::Float8 type() const { return format == "e4m3" ? kvc::Float8::e4m3 : kvc::Float8::e5m2; }
};

// K or V.
class Fp8Tokens {
 public:
  explicit Fp8Tokens(const Fp8Options& options) : options_(options) {}

  void push_back(const at::Tensor& x) {
    if (!scale_.defined()) {
      auto top = kvc::largest_of_heads(x);
      if (options_.granularity == "tensor") top = top.amax().expand(top.sizes()).contiguous();
      const bool is_one = options_.scale == "one";
      scale_ = is_one ? at::ones_like(top)
                      : (top * (options_.headroom / kvc::largest_of(options_.type())))
                            .clamp_min_(1e-30)
                            .masked_fill_(top == 0, 1);
    }
    codes_.push_back(kvc::to_float8(options_.type(), x, scale_));
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
    for (const auto& block : codes_.blocks()) bytes.add(tensor, kvc::ByteKind::codes, block);
    bytes.add(tensor, kvc::ByteKind::scales, scale_);
  }

 private:
  Fp8Options options_;
  kvc::TokenBlocks codes_{at::kByte, 64};
  at::Tensor scale_;  // [H, 1, 1] fp32
};

class Fp8 final : public kvc::PartsCompressor {
 public:
  explicit Fp8(const Fp8Options& options) : options_(options) {}

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::LevelCache<Fp8Tokens>>(info, options_);
  }
  double bits() const override { return 8; }

  // Half of 16 bits; scales are not counted.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 0.5 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  Fp8Options options_;
};

}  // namespace

KVC_PLUGIN(Fp8Options, Fp8, "fp8", "8-bit floats (e4m3 or e5m2), one scale per head",
           "OCP 8-bit Floating Point Specification (OFP8) 1.0; Micikevicius et al. 2022",
           "the scale comes from the prompt, not from calibration, and leaves room for larger tokens; larger values "
           "saturates",
           {.splits = true, .chunked_prompt = true, .formula = "OCP FP8"})
