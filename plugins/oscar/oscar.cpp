// OSCAR: keys and values are rotated by a matrix of their layer that texts calibrate (calibration.h), then clipped and
// quantized token by token: the entries of a token's head beyond the quantile `clip` of their sizes are cut to it, and
// each group of g channels has a scale and a minimum. The first `sinks` and the newest `recent` tokens are exact.
// Without a calibration the rotation is the Hadamard matrix alone.
// Bytes per layer, n = max(T - sinks - recent, 0) encoded tokens of T, g at most D:
//   2 * H_kv * (n * (4*ceil(D*b/32) + 4*D/g) + 2 * D * (T - n))
// precision exact: 8 bytes a group, 4 an exact number. D = g = 128 at 2 bits: 2.25 bits a number, 2.28 with the exact
// tokens of a text of 131,072. Rotations belong to the model.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/rotation.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/tensor_pair_cache.h>

#include <algorithm>

#include "calibration.h"

namespace {

struct OscarOptions {
  int64_t bits = 2;
  int64_t group_size = 128;
  double k_clip = 0.96, v_clip = 0.92;
  int64_t sinks = 64, recent = 256;
  std::string calibration = "none";
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer_of("group_size", group_size, {16, 32, 64, 128, 256}, "channels per scale; a smaller head is one group");
    v.real("k_clip", k_clip, 0.5, 1, "quantile of a key's magnitudes above which it is clipped; 1: no clipping");
    v.real("v_clip", v_clip, 0.5, 1, "the same for V");
    v.integer("sinks", sinks, 0, kvc::kNoUpperLimit, "first tokens, kept uncompressed");
    v.integer("recent", recent, 0, kvc::kNoUpperLimit, "newest tokens kept uncompressed");
    v.file("calibration", calibration, {"none"}, "file of rotations from kvc calibrate; none: the Hadamard matrix");
    kvc::visit_precision(v, precision, "scales, zeros, uncompressed tokens");
  }
};

struct Rotation {
  at::Tensor there, back;  // [D, D] fp32: rows times them are rotated, and rotated back
};
struct LayerRotations {
  Rotation k, v;
};

// K or V of one layer.
class OscarTensor {
 public:
  OscarTensor(const OscarOptions& options, const Rotation& rotation, double clip)
      : options_(options), rotation_(rotation), sinks_(kvc::storage_type(options.precision)), rest_(options.precision) {
    const int64_t head_dim = rotation.there.size(0);
    format_ = {
        .bits = options.bits, .group_size = std::min(options.group_size, head_dim), .precision = options.precision};
    clip_rank_ = std::min(static_cast<int64_t>(clip * static_cast<double>(head_dim)), head_dim - 1);
  }

  void push_back(const at::Tensor& x) {  // [H, T, D]
    const int64_t n_sinks = std::clamp<int64_t>(options_.sinks - sinks_.n_tokens(), 0, x.size(1));
    if (n_sinks > 0) sinks_.push_back(x.narrow(1, 0, n_sinks));
    if (n_sinks < x.size(1)) rest_.recent.push_back(x.narrow(1, n_sinks, x.size(1) - n_sinks));
    const int64_t n = rest_.recent.n_tokens() - options_.recent;
    if (n <= 0) return;
    const auto rotated = kvc::rows_times(rest_.recent.pop_front(n).contiguous(), rotation_.there);
    rest_.codes.push_back(kvc::quantize_groups(clipped(rotated), format_));
  }

  int64_t n_encoded() const { return rest_.codes.n_tokens(); }
  int64_t n_tokens() const { return sinks_.n_tokens() + rest_.n_tokens(); }

  void score(kvc::CompressedAttention& attention) const {
    attention.score(sinks_, 0);
    if (n_encoded() > 0) {
      const auto q = kvc::rows_times(attention.q(), rotation_.there);
      for_each_block([&](const kvc::GroupCodes& block, int64_t first) { attention.score(q, block, first); });
    }
    attention.score(rest_.recent, sinks_.n_tokens() + n_encoded());
  }

  void accumulate_v(kvc::CompressedAttention& attention) const {
    attention.accumulate_v(sinks_, 0);
    if (n_encoded() > 0) {
      const auto sums = at::zeros_like(attention.q());  // [H_q, D], rotated
      for_each_block([&](const kvc::GroupCodes& block, int64_t first) { attention.accumulate_v(block, first, sums); });
      attention.then([&attention, sums, back = rotation_.back] { attention.add_out(kvc::rows_times(sums, back)); });
    }
    attention.accumulate_v(rest_.recent, sinks_.n_tokens() + n_encoded());
  }

  at::Tensor dequantize() const {  // [H, T, D] fp32
    std::vector<at::Tensor> parts;
    if (sinks_.n_tokens() > 0) parts.push_back(sinks_.all());
    for_each_block([&](const kvc::GroupCodes& block, int64_t) {
      parts.push_back(kvc::rows_times(block.dequantize().contiguous(), rotation_.back));
    });
    if (rest_.recent.n_tokens() > 0) parts.push_back(rest_.recent.all());
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    rest_.codes.add_to(bytes, tensor);
    sinks_.add_to(bytes, tensor);
    rest_.recent.add_to(bytes, tensor);
  }

 private:
  at::Tensor clipped(const at::Tensor& x) const {  // [H, n, D]
    const auto most = std::get<0>(x.abs().kthvalue(clip_rank_ + 1, 2, /*keepdim=*/true));
    return at::minimum(at::maximum(x, -most), most);
  }

  template <class F>
  void for_each_block(F f) const {  // f(codes, index of their first token)
    int64_t first = sinks_.n_tokens();
    for (const auto& block : rest_.codes.blocks()) {
      f(block, first);
      first += block.n_tokens;
    }
  }

  const OscarOptions& options_;  // the compressor's
  Rotation rotation_;
  kvc::GroupFormat format_;
  int64_t clip_rank_;  // of D sizes in ascending order, from 0
  kvc::TokenBlocks sinks_;
  kvc::StoredTokens rest_;  // codes of rotated tokens, then exact ones
};

class Oscar final : public kvc::PartsCompressor, public kvc::Calibrated {
 public:
  explicit Oscar(const OscarOptions& options) : options_(options) {}

  void check_model(const kvc::ModelShape& model) const override {
    kvc::check_hadamard("oscar", model.head_dim);
    kvc::check_group_size("oscar", std::min(options_.group_size, model.head_dim), model);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const auto rotations = rotations_for(info);
    return std::make_unique<kvc::TensorPairCache<OscarTensor>>(
        info, OscarTensor(options_, rotations.k, options_.k_clip), OscarTensor(options_, rotations.v, options_.v_clip));
  }
  double bits() const override { return static_cast<double>(options_.bits); }

  // b + 32/g bits of the numbers between sinks and recent tokens, 16 of theirs.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n = n_prompt_tokens + n_new_tokens;
    const int64_t n_encoded = std::max<int64_t>(0, n - options_.sinks - options_.recent);
    const double group = static_cast<double>(std::min(options_.group_size, model.head_dim));
    return (bits() + 32 / group) / 16 * kvc::fp16_bytes(model, n_encoded) + kvc::fp16_bytes(model, n - n_encoded);
  }

  std::string calibration_file() const override { return has_file() ? options_.calibration : ""; }
  std::vector<std::string> calibrated_options() const override { return {}; }  // one file serves all
  std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model) const override {
    kvc::check_hadamard("oscar", model.head_dim);
    return oscar::make_calibrator(model);
  }
  void load(const kvc::ModelShape& model, const kvc::NamedTensors& tensors) override {
    k_rotations_ = oscar::rotations_from(tensors, "k.rotation", model);
    v_rotations_ = oscar::rotations_from(tensors, "v.rotation", model);
  }

 private:
  bool has_file() const { return options_.calibration != "none"; }

  LayerRotations rotations_for(const kvc::LayerInfo& info) const {
    const auto rotation_of = [&](const char* tensor, const at::Tensor& rotations) -> Rotation {
      const auto name = has_file() ? kvc::concat(tensor, info.layer) : kvc::concat("hadamard", info.head_dim);
      const auto make = [&] { return has_file() ? rotations[info.layer] : kvc::hadamard_matrix(info.head_dim); };
      return {matrices_.get(name, info.device, make),
              matrices_.get(name + " back", info.device, [&] { return make().t(); })};
    };
    const int64_t n = k_rotations_.defined() ? k_rotations_.size(0) : 0;
    KVC_CHECK(!has_file() || info.layer < n, "oscar: calibration '", options_.calibration, "' is for ", n,
              " layers, this is layer ", info.layer);
    return {rotation_of("k", k_rotations_), rotation_of("v", v_rotations_)};
  }

  OscarOptions options_;
  at::Tensor k_rotations_, v_rotations_;  // [L, D, D], from the file
  kvc::SharedMatrices matrices_;
};

}  // namespace

KVC_PLUGIN(
    OscarOptions, Oscar, "oscar",
    "quantization: calibrated rotations, clipped codes per token, sinks and recent tokens uncompressed",
    "OSCAR 2026 (arXiv 2605.17757); not OScaR (arXiv 2605.19660), which is oscar_tni",
    "uncompressed tokens, scales and minima in fp16 (there bf16 and floats), and the encoder uses them as they are "
    "stored; ties go to even (there up); eigenvectors' signs are fixed; heads of fewer channels than a group are "
    "one group; without a calibration the rotation is the Hadamard matrix alone",
    {.one_by_one_same = true, .splits = true, .chunked_prompt = true, .formula = "OSCAR"})
