// OScaR: keys and values are rotated by a Hadamard matrix, each key of all heads is divided by its own norm, and the
// rest is quantized asymmetrically, keys along g tokens of a channel, values along g channels of a token:
//   k^_t = |k_t| * (scale * code + zero) H,   |k_t|: over all KV heads of token t;   v^_t = (scale * code + zero) H.
// Tokens wait exactly until `buffer` of them are encoded together.
// Bytes per layer, n = T - T mod buffer encoded tokens:
//   H_kv * (n * (D*b/8 + 4*D/g) + n * (4*ceil(D*b/32) + 4*D/g)) + 2*n + 4 * H_kv * D * (T - n)
// precision exact: 8 bytes a group, 4 a norm and an exact number.
#include <ATen/ATen.h>
#include <kvc/plugin.h>
#include <kvc/quant/rotation.h>
#include <kvc/quant/shared_options.h>
#include <kvc/quant/tensor_pair_cache.h>
#include <kvc/value_checks.h>

namespace {

struct TniOptions {
  int64_t bits = 2;
  int64_t group_size = 32;
  int64_t buffer = 128;
  kvc::Precision precision = kvc::Precision::real;
  void visit(kvc::OptionVisitor& v) {
    kvc::visit_bits(v, bits);
    v.integer_of("group_size", group_size, {16, 32, 64, 128}, "tokens (K) or channels (V) per scale and zero");
    kvc::visit_buffer(v, buffer);
    kvc::visit_precision(v, precision, "scales, zeros, norms, uncompressed tokens");
  }
};

// [H, n, D] fp32, rotated -> [n]: the norm of each token over all heads, as it is stored; 1 of a token of zeros
at::Tensor norms_of(const at::Tensor& x, kvc::Precision precision) {
  const auto norms = x.to(at::kDouble).square().sum(2).sum(0).sqrt();
  const auto held = norms.to(kvc::storage_type(precision));
  kvc::check_values(held.isfinite(), [norms] {
    return kvc::concat("oscar_tni: the norm of a key is ", norms.max().item<double>(), ", beyond fp16 (65504)");
  });
  return held.masked_fill(held.eq(0), 1);
}

// K or V of one layer: codes of rotated tokens, then exact ones.
class TniTensor {
 public:
  TniTensor(const TniOptions& options, kvc::GroupAxis axis, const at::Tensor& hadamard)
      : format_{.bits = options.bits, .group_size = options.group_size, .axis = axis, .precision = options.precision},
        buffer_(options.buffer),
        hadamard_(hadamard),
        held_(options.precision) {}

  void push_back(const at::Tensor& x) {  // [H, T, D]
    held_.recent.push_back(x);
    const int64_t n = held_.recent.n_tokens() - held_.recent.n_tokens() % buffer_;
    if (n == 0) return;
    auto rotated = kvc::rows_times(held_.recent.pop_front(n).contiguous(), hadamard_);
    if (scaled()) {
      norms_.push_back(norms_of(rotated, format_.precision));
      rotated = rotated / norms_.back().to(at::kFloat).unsqueeze(1);  // as the decoder has them
    }
    held_.codes.push_back(kvc::quantize_groups(rotated, format_));
  }

  int64_t n_encoded() const { return held_.codes.n_tokens(); }
  int64_t n_tokens() const { return held_.n_tokens(); }

  void score(kvc::CompressedAttention& attention) const {
    const auto q = n_encoded() > 0 ? kvc::rows_times(attention.q(), hadamard_) : at::Tensor();
    for_each_block([&](const kvc::GroupCodes& block, const at::Tensor& norms, int64_t first) {
      attention.score(q, block, first);
      attention.weights(first, block.n_tokens).mul_(norms.to(at::kFloat));  // of this block alone until now
    });
    attention.score(held_.recent, n_encoded());
  }

  void accumulate_v(kvc::CompressedAttention& attention) const {
    if (n_encoded() > 0) {
      const auto sums = at::zeros_like(attention.q());  // [H_q, D], rotated
      for_each_block([&](const kvc::GroupCodes& block, const at::Tensor&, int64_t first) {
        attention.accumulate_v(block, first, sums);
      });
      attention.then([&attention, sums, back = hadamard_] {  // its own inverse
        attention.add_out(kvc::rows_times(sums, back));
      });
    }
    attention.accumulate_v(held_.recent, n_encoded());
  }

  at::Tensor dequantize() const {  // [H, T, D] fp32
    std::vector<at::Tensor> parts;
    for_each_block([&](const kvc::GroupCodes& block, const at::Tensor& norms, int64_t) {
      auto x = block.dequantize();
      if (scaled()) x = x * norms.to(at::kFloat).unsqueeze(1);
      parts.push_back(kvc::rows_times(x.contiguous(), hadamard_));
    });
    if (held_.recent.n_tokens() > 0) parts.push_back(held_.recent.all());
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    held_.add_to(bytes, tensor);
    for (const auto& norms : norms_) bytes.add(tensor, kvc::ByteKind::norms, norms);
  }

 private:
  bool scaled() const { return format_.axis == kvc::GroupAxis::tokens; }  // K

  template <class F>
  void for_each_block(F f) const {  // f(codes, their norms, index of their first token)
    int64_t first = 0;
    for (size_t i = 0; i < held_.codes.blocks().size(); ++i) {
      const auto& block = held_.codes.blocks()[i];
      f(block, scaled() ? norms_[i] : at::Tensor(), first);
      first += block.n_tokens;
    }
  }

  kvc::GroupFormat format_;
  int64_t buffer_;
  at::Tensor hadamard_;  // [D, D] fp32, the compressor's
  kvc::StoredTokens held_;
  std::vector<at::Tensor> norms_;  // of K's blocks, [n] each: codes grouped along tokens stay the chunks they were
};

class Tni final : public kvc::PartsCompressor {
 public:
  explicit Tni(const TniOptions& options) : options_(options) {
    KVC_CHECK(options.buffer % options.group_size == 0, "oscar_tni: buffer ", options.buffer,
              ", allowed: multiples of group_size ", options.group_size);
  }

  void check_model(const kvc::ModelShape& model) const override {
    kvc::check_hadamard("oscar_tni", model.head_dim);
    kvc::check_group_size("oscar_tni", options_.group_size, model);
  }
  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    const auto name = kvc::concat(info.head_dim);
    const auto hadamard = matrices_.get(name, info.device, [&] { return kvc::hadamard_matrix(info.head_dim); });
    return std::make_unique<kvc::TensorPairCache<TniTensor>>(info,
                                                             TniTensor(options_, kvc::GroupAxis::tokens, hadamard),
                                                             TniTensor(options_, kvc::GroupAxis::channels, hadamard));
  }
  double bits() const override { return static_cast<double>(options_.bits); }

  // b + 32/g bits a number, and 16 a key's norm, of the encoded tokens; 16 bits of the others.
  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const int64_t n = n_prompt_tokens + n_new_tokens, n_encoded = n - n % options_.buffer;
    const double codes = (bits() + 32 / static_cast<double>(options_.group_size)) / 16;
    return codes * kvc::fp16_bytes(model, n_encoded) + 2 * static_cast<double>(n_encoded) +
           kvc::fp16_bytes(model, n - n_encoded);
  }

 private:
  TniOptions options_;
  kvc::SharedMatrices matrices_;
};

}  // namespace

KVC_PLUGIN(TniOptions, Tni, "oscar_tni",
           "quantization: Hadamard rotation, keys divided by their norms, then K per channel, V per token",
           "OScaR 2026 (arXiv 2605.19660); not OSCAR (arXiv 2605.17757), which is oscar",
           "minima and steps in fp16, where the published simulation rounds zero points to integers; a token of zeros "
           "has norm 1; uncompressed tokens are stored unrotated",
           {.one_by_one_same = true, .splits = true, .chunked_prompt = true, .formula = "OScaR"})
