// INT8: symmetric integers, x^ = scale * code, code = clamp(round(x / scale), -127, 127), as serving engines hold them.
//   token_head: scale = max |x| / 127 of a token and head
//   tensor:     one scale for K and one for V of a layer, known before the run: given, or learned from texts
//               (max |x| / 127 over them); what is beyond 127 * scale saturates
// Each token is encoded when it is appended. Bytes per layer, T tokens, K and V:
//   token_head: 2 * H_kv*T * (4*ceil(D/4) + 4 for the scale, or 2);   tensor: 2 * (H_kv*T * 4*ceil(D/4) + 4)
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/largest_magnitudes.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/quant/stored_cache.h>
#include <kvc/quant/tensor_pair_cache.h>

namespace {

constexpr int64_t kTop = 127;

struct Int8Options {
  std::string scales = "token_head";
  int64_t scale_bits = 32;
  double k_scale = 1, v_scale = 1;
  std::string calibration = "none";
  void visit(kvc::OptionVisitor& v) {
    v.choice("scales", scales, {"token_head", "tensor"},
             "one scale per token and head, or one for K and one for V of a layer");
    v.integer_of("scale_bits", scale_bits, {16, 32}, "bits of a per-token scale");
    v.real("k_scale", k_scale, 1e-6, 1e6, "scale of K, with scales tensor; 1 is the default of serving engines");
    v.real("v_scale", v_scale, 1e-6, 1e6, "scale of V, with scales tensor");
    v.file("calibration", calibration, {"none"},
           "file of kvc calibrate, with scales tensor, instead of k_scale and v_scale");
  }
  bool of_tensor() const { return scales == "tensor"; }
};

// Of one layer.
struct Scales {
  double k = 1, v = 1;
};

// K or V with a scale that is known.
class ScaledTokens {
 public:
  ScaledTokens(double scale, at::Device device)
      : scale_(at::full({1, 1, 1}, scale, at::TensorOptions(at::kFloat).device(device))) {}

  void push_back(const at::Tensor& x) {  // [H, t, D]
    const auto codes = (x.to(at::kFloat) / scale_).round_().clamp_(-kTop, kTop).add_(kTop);
    codes_.push_back(kvc::pack_bits(codes.to(at::kByte), 8));
    head_dim_ = x.size(2);
  }

  int64_t n_tokens() const { return codes_.n_tokens(); }

  template <class F>
  void for_each_block(F f) const {  // f(codes, index of the first token)
    int64_t first = 0;
    for (const auto& block : codes_.blocks()) {
      f(kvc::GroupCodes{.codes = block,
                        .scale = scale_,
                        .zero = {},
                        .format = {.bits = 8, .merge_heads = true, .symmetric = true, .merge_tokens = true},
                        .n_heads = block.size(0),
                        .n_tokens = block.size(1),
                        .head_dim = head_dim_},
        first);
      first += block.size(1);
    }
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, kvc::ByteKind::codes);
    bytes.add(tensor, kvc::ByteKind::scales, scale_);
  }

 private:
  at::Tensor scale_;
  kvc::TokenBlocks codes_{at::kInt, 64};
  int64_t head_dim_ = 0;
};

std::unique_ptr<kvc::LayerCache> scaled_cache(const kvc::LayerInfo& info, const Scales& scales) {
  using Tensor = kvc::BlockwiseTensor<ScaledTokens>;
  return std::make_unique<kvc::TensorPairCache<Tensor>>(info, Tensor(scales.k, info.device),
                                                        Tensor(scales.v, info.device));
}

// Of one layer. of_heads [H_kv]
double learned_scale(const at::Tensor& of_heads, const char* name, int64_t layer) {
  const double largest = of_heads.max().item<double>();
  KVC_CHECK(largest > 0, "int8: ", name, " of layer ", layer, " is 0, allowed: positive");
  return largest / kTop;
}

class Int8 final : public kvc::PartsCompressor, public kvc::Calibrated {
 public:
  explicit Int8(const Int8Options& options) : options_(options) {
    const bool given = options.k_scale != 1 || options.v_scale != 1;
    KVC_CHECK(options.of_tensor() || !given, "int8: k_scale ", options.k_scale, " and v_scale ", options.v_scale,
              " with scales token_head, allowed: with scales tensor");
    KVC_CHECK(options.of_tensor() || options.calibration == "none", "int8: calibration '", options.calibration,
              "' with scales token_head, allowed: with scales tensor");
    KVC_CHECK(options.calibration == "none" || !given, "int8: k_scale ", options.k_scale, " and v_scale ",
              options.v_scale, " together with a calibration, allowed: one of them");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    if (!options_.of_tensor()) {
      const kvc::GroupFormat format{
          .bits = 8,
          .precision = options_.scale_bits == 16 ? kvc::Precision::real : kvc::Precision::exact,
          .symmetric = true};
      return std::make_unique<kvc::StoredCache>(info, format, format);
    }
    if (options_.calibration == "none") return scaled_cache(info, {options_.k_scale, options_.v_scale});
    KVC_CHECK(info.layer < static_cast<int64_t>(learned_.size()), "int8: calibration '", options_.calibration,
              "' is for ", learned_.size(), " layers, this is layer ", info.layer);
    return scaled_cache(info, learned_[static_cast<size_t>(info.layer)]);
  }

  double bits() const override { return 8; }

  // A byte a number, and a token's scales of both tensors.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n = n_prompt_tokens + n_new_tokens;
    const int64_t of_scales = options_.of_tensor() ? 0 : 2 * model.n_kv_heads * n * options_.scale_bits / 8;
    return kvc::fp16_bytes(model, n) / 2 + static_cast<double>(of_scales);
  }

  std::string calibration_file() const override { return options_.calibration == "none" ? "" : options_.calibration; }
  std::vector<std::string> calibrated_options() const override { return {}; }
  std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model) const override {
    return kvc::learn_largest_magnitudes(model);
  }
  void load(const kvc::ModelShape& model, const kvc::NamedTensors& tensors) override {
    const auto largest = kvc::largest_magnitudes("int8", model, tensors);
    learned_.clear();
    for (int64_t layer = 0; layer < model.n_layers; ++layer) {
      learned_.push_back(
          {learned_scale(largest.k[layer], "k.largest", layer), learned_scale(largest.v[layer], "v.largest", layer)});
    }
  }

 private:
  Int8Options options_;
  std::vector<Scales> learned_;  // by layer, from the file
};

}  // namespace

KVC_PLUGIN(Int8Options, Int8, "int8", "symmetric 8-bit integers, one scale per token and head, or per tensor",
           "vLLM, --kv-cache-dtype int8_per_token_head; TensorRT-LLM, INT8 KV cache with calibrated scales",
           "codes are rounded half to even (vLLM's kernel truncates); a scale of 16 bits is rounded before codes are "
           "taken; a head of zeros has scale 0",
           {.one_by_one_same = true, .prefix_local = true, .splits = true, .chunked_prompt = true, .formula = "vLLM"})
