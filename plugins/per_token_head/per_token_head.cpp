// vLLM's cache types with one fp32 scale for each token and KV head, K and V alike:
//   int8: scale = max(max |x| / 127, 1e-6),  code = x times 1 / scale, truncated
//   fp8:  scale = max(max |x| / 448, 1e-6),  code = e4m3(x / scale)
//   int4: y = H (s * x), H: Hadamard matrix of +1 and -1, s: fixed signs, both of head_dim;
//         scale = max((max y - min y) / 15, 1e-6),  zero = round(-min y / scale) and code = round(y / scale + zero), both
//         within 0 to 15 and half away from zero. The zero replaces the 4 lowest bits of the stored scale, and
//         y^ = (code - zero) * stored scale. Queries are transformed like keys, the output back.
// Bytes per layer: 2 (K, V) * H_kv * T * (D * bits / 8 + 4), rows padded to words of 32 bits.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <kvc/plugin.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/quant/rotation.h>
#include <kvc/quant/small_floats.h>
#include <kvc/quant/tensor_pair_cache.h>

#include <bit>

namespace {

constexpr int64_t kBlockTokens = 64;
constexpr int64_t kZeroBits = 15;  // of a stored scale
constexpr float kLeastScale = 1e-6f;
constexpr uint64_t kSignSeed = 0x9E3779B9;

struct PerTokenHeadOptions {
  std::string type = "int4";
  void visit(kvc::OptionVisitor& v) { v.choice("type", type, {"int4", "int8", "fp8"}, "type of the codes"); }
};

at::Tensor divided(const at::Tensor& x, float by) { return x.div(at::full({}, by, x.options())); }
at::Tensor scale_of(const at::Tensor& x, float levels) { return divided(x, levels).clamp_min_(kLeastScale); }

// Codes and scales of the same tokens.
class ScaledCodes {
 public:
  explicit ScaledCodes(at::ScalarType codes) : codes_(codes, kBlockTokens) {}

  int64_t n_tokens() const { return codes_.n_tokens(); }
  int64_t droppable(int64_t n_tokens) const { return codes_.droppable(n_tokens); }
  void drop_front(int64_t n_tokens) {
    codes_.drop_front(n_tokens);
    scales_.drop_front(n_tokens);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, kvc::ByteKind::codes);
    scales_.add_to(bytes, tensor, kvc::ByteKind::scales);
  }

 protected:
  void store(const at::Tensor& codes, const at::Tensor& scale) {
    codes_.push_back(codes);
    scales_.push_back(scale);
  }

  template <class F>
  void for_each(F f) const {  // f(codes, scales, index of the first token)
    int64_t first = 0;
    for (size_t i = 0; i < codes_.blocks().size(); ++i) {
      f(codes_.blocks()[i], scales_.blocks()[i], first);
      first += codes_.blocks()[i].size(1);
    }
  }

 private:
  kvc::TokenBlocks codes_, scales_{at::kFloat, kBlockTokens};
};

// K or V. BlockwiseTensor calls for_each_block with LevelCodes or GroupCodes.
class FloatTokens : public ScaledCodes {
 public:
  FloatTokens() : ScaledCodes(at::kByte) {}

  void push_back(const at::Tensor& tokens) {  // [H, t, D]
    const auto x = tokens.to(at::kFloat), scale = scale_of(x.abs().amax(2, true), kvc::kLargestE4m3);
    store(kvc::to_e4m3((x * scale.reciprocal()).contiguous()), scale);
  }

  template <class F>
  void for_each_block(F f) const {
    for_each([&](const at::Tensor& codes, const at::Tensor& scale, int64_t first) {
      f(kvc::LevelCodes{.codes = codes, .scale = scale, .head_dim = codes.size(2)}, first);
    });
  }
};

class IntegerTokens : public ScaledCodes {
 public:
  IntegerTokens() : ScaledCodes(at::kInt) {}

  void push_back(const at::Tensor& tokens) {  // [H, t, D]
    const auto x = tokens.to(at::kFloat), scale = scale_of(x.abs().amax(2, true), 127.f);
    const auto codes = (x * scale.reciprocal()).trunc().clamp_(-127, 127).add_(127).to(at::kByte);
    store(kvc::pack_bits(codes, 8), scale);
    head_dim_ = x.size(2);
  }

  template <class F>
  void for_each_block(F f) const {
    for_each([&](const at::Tensor& codes, const at::Tensor& scale, int64_t first) {
      f(kvc::GroupCodes{.codes = codes,
                        .scale = scale,
                        .zero = {},
                        .format = {.bits = 8, .precision = kvc::Precision::exact, .symmetric = true},
                        .n_heads = codes.size(0),
                        .n_tokens = codes.size(1),
                        .head_dim = head_dim_},
        first);
    });
  }

 private:
  int64_t head_dim_ = 0;
};

// Half away from zero.
at::Tensor rounded(const at::Tensor& x) { return (x.abs() + 0.5f).floor_().mul_(x.sign()); }

// K or V, int4, in the rotated basis.
class RotatedTokens : public ScaledCodes {
 public:
  explicit RotatedTokens(at::Tensor rotation) : ScaledCodes(at::kInt), rotation_(std::move(rotation)) {}

  void push_back(const at::Tensor& tokens) {  // [H, t, D]
    const auto y = kvc::rows_times(tokens.to(at::kFloat).contiguous(), rotation_);
    const auto low = y.amin(2, true), scale = scale_of(y.amax(2, true) - low, 15);
    const auto zero = rounded(-low / scale).clamp_(0, kZeroBits);
    const auto codes = rounded(y * scale.reciprocal() + zero).clamp_(0, 15).to(at::kByte);
    const auto bits = scale.view(at::kInt).bitwise_and(~kZeroBits).bitwise_or(zero.to(at::kInt));
    store(kvc::pack_bits(codes, 4), bits.view(at::kFloat));
  }

  template <class F>
  void for_each_block(F f) const {
    for_each([&](const at::Tensor& codes, const at::Tensor& scale, int64_t first) {
      f(kvc::GroupCodes{.codes = codes,
                        .scale = scale,
                        .zero = scale.view(at::kInt).bitwise_and(kZeroBits).to(at::kFloat).mul_(scale).neg_(),
                        .format = {.bits = 4, .precision = kvc::Precision::exact},
                        .n_heads = codes.size(0),
                        .n_tokens = codes.size(1),
                        .head_dim = rotation_.size(0)},
        first);
    });
  }

 private:
  at::Tensor rotation_;  // [D, D] fp32, times sqrt(D) orthogonal
};

// H x, then the signs, over D: the inverse of x (signs * x) H.
at::Tensor rotated_back(const at::Tensor& x, const at::Tensor& rotation) {
  return kvc::rows_times(x.contiguous(), rotation.t().contiguous()).div_(static_cast<double>(rotation.size(0)));
}

struct RotatedTensor : kvc::BlockwiseTensor<RotatedTokens> {
  explicit RotatedTensor(const at::Tensor& rotation) : BlockwiseTensor(rotation), rotation(rotation) {}
  at::Tensor dequantize() const {
    const auto y = BlockwiseTensor::dequantize();
    return y.defined() ? rotated_back(y, rotation) : y;
  }
  at::Tensor rotation;
};

class RotatedCache final : public kvc::TensorPairCache<RotatedTensor> {
 public:
  RotatedCache(const kvc::LayerInfo& info, const at::Tensor& rotation)
      : TensorPairCache(info, RotatedTensor(rotation), RotatedTensor(rotation)), rotation_(rotation) {}

 private:
  at::Tensor to_basis(const at::Tensor& q) const override {
    const auto query = kvc::rows_times(q.to(at::kFloat).contiguous(), rotation_);
    return query.div_(static_cast<double>(rotation_.size(0)));
  }
  at::Tensor from_basis(const at::Tensor& out) const override { return rotated_back(out, rotation_); }

  at::Tensor rotation_;
};

// Rows of signs times the Hadamard matrix: x times it is H (s * x).
at::Tensor signed_hadamard(int64_t d) {
  auto generator = at::detail::createCPUGenerator(kSignSeed);
  const auto signs = at::bernoulli(at::full({d}, 0.5f), generator).mul_(2).sub_(1);
  return kvc::hadamard_matrix(d).sign().to(at::kFloat) * signs.unsqueeze(1);
}

class PerTokenHead final : public kvc::PartsCompressor {
 public:
  explicit PerTokenHead(const PerTokenHeadOptions& options) : type_(options.type) {}

  void check_model(const kvc::ModelShape& model) const override {
    KVC_CHECK(type_ != "int4" || std::has_single_bit(static_cast<uint64_t>(model.head_dim)),
              "per_token_head: type int4 with head_dim ", model.head_dim,
              ", allowed: powers of two, which its Hadamard matrix needs");
  }

  std::unique_ptr<kvc::LayerCache> make_cache(const kvc::LayerInfo& info) const override {
    using Floats = kvc::BlockwiseTensor<FloatTokens>;
    using Integers = kvc::BlockwiseTensor<IntegerTokens>;
    if (type_ == "fp8") return std::make_unique<kvc::TensorPairCache<Floats>>(info, Floats(), Floats());
    if (type_ == "int8") return std::make_unique<kvc::TensorPairCache<Integers>>(info, Integers(), Integers());
    const auto rotation =
        matrices_.get(kvc::concat(info.head_dim), info.device, [&] { return signed_hadamard(info.head_dim); });
    return std::make_unique<RotatedCache>(info, rotation);
  }

  double bits() const override { return type_ == "int4" ? 4 : 8; }

  double paper_bytes(const kvc::ModelShape& model, int64_t n_prompt_tokens, int64_t n_new_tokens) const override {
    const double of_value = bits() / 8 + 4 / static_cast<double>(model.head_dim);
    return of_value / 2 * kvc::fp16_bytes(model, n_prompt_tokens + n_new_tokens);
  }

 private:
  std::string type_;
  kvc::SharedMatrices matrices_;
};

}  // namespace

KVC_PLUGIN(
    PerTokenHeadOptions, PerTokenHead, "per_token_head",
    "vLLM's int4, int8 and fp8 cache types with a scale per token and head",
    "vLLM, vllm/v1/attention/ops (triton_quant_kv, triton_reshape_and_cache_flash)",
    "K, V and queries are rotated in fp32, where the engine's kernels use bf16; rows of codes are padded to 32 bits",
    {.one_by_one_same = true,
     .prefix_local = true,
     .splits = true,
     .chunked_prompt = true,
     .devices = "a GPU would sum rotations in another order, which changes codes",
     .formula = "vLLM"})
