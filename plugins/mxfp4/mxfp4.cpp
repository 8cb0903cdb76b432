// MXFP4: 4-bit floats (e2m1) in blocks of 32 channels of one head of one token; a block's scale is a power of two, held
// as its exponent in a byte (e8m0):
//   e = floor(log2(max |block|)) - 2,  x^ = 2^e * e2m1(x / 2^e), which saturates at 6 * 2^e.
// A block of zeros has the smallest exponent. Nothing is shared between tokens.
// Bytes per layer: 2 (K, V) * H_kv*T * (4*ceil(D/8) + D/32).
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/e2m1_tokens.h>
#include <kvc/quant/level_cache.h>

namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kBias = 127, kLargestExponentOfE2m1 = 2;

struct Mxfp4Options {
  void visit(kvc::OptionVisitor&) {}
};

// K or V.
class Mxfp4Tokens : public kvc::E2m1Tokens {
 public:
  Mxfp4Tokens() : E2m1Tokens(kvc::NumberType::e8m0) {}

  void push_back(const at::Tensor& x) {
    if (write(x, kvc::BlockRule::e2m1_e8m0, kBlock)) return;
    const auto tokens = x.to(at::kFloat);
    const auto blocks = tokens.unflatten(2, {tokens.size(2) / kBlock, kBlock});  // [H, T, D/32, 32]
    const auto top = blocks.abs().amax(-1);
    // top = m * 2^p with 1/2 <= m < 1, so that floor(log2(top)) is p - 1
    const auto exponent = std::get<1>(at::frexp(top)) - (1 + kLargestExponentOfE2m1);
    const auto scales = (exponent + kBias).masked_fill_(top == 0, 0).clamp_(0, 254).to(at::kByte);
    store(kvc::to_e2m1(blocks / kvc::from_e8m0(scales).unsqueeze(-1)), scales);
  }
};

class Mxfp4 final : public kvc::PartsCompressor {
 public:
  explicit Mxfp4(const Mxfp4Options&) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(model.head_dim % kBlock == 0, "mxfp4: head_dim ", model.head_dim, " is not a multiple of a block of 32");
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    return std::make_unique<kvc::LevelCache<Mxfp4Tokens>>(info);
  }
  double bits() const override { return 4; }

  // The format's 4 + 8/32 bits a number.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    return 4.25 / 16 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }
};

}  // namespace

KVC_PLUGIN(Mxfp4Options, Mxfp4, "mxfp4", "4-bit floats (e2m1) in blocks of 32 with power-of-two scales",
           "OCP Microscaling Formats (MX) 1.0, MXFP4", "none",
           {.one_by_one_same = true, .prefix_local = true, .splits = true, .chunked_prompt = true, .formula = "OCP MX"})
