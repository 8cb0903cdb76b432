// NVFP4: 4-bit floats (e2m1) in blocks of 16 channels of one head, an e4m3 scale a block, one fp32 scale for K and one
// for V, fixed by the prompt:
//   g = headroom * max |x| / (6 * 448), or 1 with scale one
//   s = e4m3(max |block| / (6 g)),  x^ = g * s * e2m1(x / (g s))
// Later blocks beyond 6 * 448 * g saturate. A block whose s is 0 holds zeros.
// Bytes per layer: 2 (K, V) * (H_kv*T * (4*ceil(D/8) + D/16) + 4).
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/e2m1_tokens.h>
#include <kvc/quant/level_cache.h>
#include <kvc/quant/shared_options.h>

namespace {

constexpr int64_t kBlock = 16;

struct Nvfp4Options {
  double headroom = 2;
  std::string scale = "prompt";
  bool four_over_six = false;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_headroom(v, headroom);
    v.choice("scale", scale, {"prompt", "one"}, "scale of the tensor: from the prompt, or 1 (uncalibrated)");
    v.boolean(
        "four_over_six", four_over_six,
        "scale each block so that its largest value is stored as 4 or as 6, whichever has the smaller square error");
  }
};

// K or V.
class Nvfp4Tokens : public kvc::E2m1Tokens {
 public:
  explicit Nvfp4Tokens(const Nvfp4Options& options) : E2m1Tokens(kvc::NumberType::e4m3), options_(options) {}

  void push_back(const at::Tensor& x) {
    const bool is_first = !common_.global.defined();  // the prompt's, which gives the scale
    if (!is_first && !options_.four_over_six && write(x, kvc::BlockRule::e2m1_e4m3, kBlock)) return;
    const auto tokens = x.to(at::kFloat);
    auto& global = common_.global;
    if (!global.defined()) global = scale_of(tokens);
    const auto blocks = tokens.unflatten(2, {tokens.size(2) / kBlock, kBlock});  // [H, T, D/16, 16]
    const auto by_six = encoded(blocks, kvc::kLargestE2m1);
    if (!options_.four_over_six) return store(by_six.codes, by_six.scales);
    const auto by_four = encoded(blocks, 4);
    const auto four = by_four.error < by_six.error;
    store(at::where(four.unsqueeze(-1), by_four.codes, by_six.codes), at::where(four, by_four.scales, by_six.scales));
  }

 private:
  struct Blocks {
    at::Tensor codes, scales, error;  // [H, T, D/16, 16] and [H, T, D/16] u8; [H, T, D/16] square error
  };
  // Each block with its largest magnitude at `top`.
  Blocks encoded(const at::Tensor& blocks, float top) const {
    const auto& global = common_.global;
    const auto scales = kvc::to_e4m3(blocks.abs().amax(-1) / (global * top));
    const auto step = (kvc::from_e4m3(scales) * global).unsqueeze(-1);
    const auto codes = kvc::to_e2m1((blocks / step).masked_fill_(step == 0, 0));
    const auto error = (kvc::from_e2m1(codes) * step - blocks).square().sum(-1);
    return {codes, scales, error};
  }

  at::Tensor scale_of(const at::Tensor& prompt) const {
    if (options_.scale == "one") return at::ones({1}, prompt.options());
    const auto top = prompt.abs().max().view({1});
    const float largest_scale =
        options_.four_over_six ? 256 : kvc::kLargestE4m3;  // a block at 4 has 1.5 times the scale
    return (top * (options_.headroom / (largest_scale * kvc::kLargestE2m1)))
        .clamp_min_(1e-30)
        .masked_fill_(top == 0, 1);
  }

  Nvfp4Options options_;
};

class Nvfp4 final : public kvc::PartsCompressor {
 public:
  explicit Nvfp4(const Nvfp4Options& options) : options_(options) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim % kBlock == 0, "nvfp4: head_dim ", model.head_dim, " is not a multiple of a block of 16");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::LevelCache<Nvfp4Tokens>>(info, options_);
  }
  double bits() const override { return 4; }

  // The format's 4 + 8/16 bits a number; the tensor's scale is not counted.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 4.5 / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  Nvfp4Options options_;
};

}  // namespace

KVC_PLUGIN(Nvfp4Options, Nvfp4, "nvfp4", "4-bit floats (e2m1) in blocks of 16 with e4m3 scales",
           "NVIDIA, NVFP4 (Blackwell); OCP Microscaling Formats (MX) 1.0 for e2m1",
           "the tensor's scale comes from the prompt, not from calibration, and leaves room for larger tokens; larger "
           "values saturate",
           {.splits = true, .chunked_prompt = true, .formula = "NVFP4"})
