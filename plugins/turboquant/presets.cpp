#include "presets.h"

#include <ATen/ATen.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/quant/projection.h>
#include <kvc/quant/small_floats.h>
#include <kvc/quant/stored_cache.h>
#include <kvc/quant/tensor_pair_cache.h>

#include <map>
#include <utility>

namespace turboquant {
namespace {

constexpr int64_t kBlockTokens = 64;
constexpr float kEvenLevels[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// x^ = scale * code + zero of each token of a head, 3 or 4 bits.
class EvenCodes {
 public:
  EvenCodes(int64_t bits, kvc::Precision precision)
      : bits_(bits),
        type_(kvc::storage_type(precision)),
        codes_(at::kInt, kBlockTokens),
        scales_(type_, kBlockTokens),
        zeros_(type_, kBlockTokens) {}

  void push_back(const at::Tensor& values) {  // [H, t, D]
    const auto x = values.to(at::kFloat), low = x.amin(2, true), range = x.amax(2, true) - low;
    const int64_t top = (int64_t{1} << bits_) - 1;
    const auto zero = low.to(type_), scale = (range / top).to(type_);
    KVC_CHECK((zero.isfinite() & scale.isfinite()).all().item<bool>(), "turboquant: V from ", low.min().item<double>(),
              " to ", x.max().item<double>(), ", beyond fp16 (65504)");
    const auto steps = ((x - zero) / scale.to(at::kFloat)).masked_fill_(scale == 0, 0);
    codes_.push_back(kvc::pack_bits(steps.round_().clamp_(0, top).to(at::kByte), bits_));
    scales_.push_back(scale), zeros_.push_back(zero);
    head_dim_ = x.size(2);
  }

  int64_t n_tokens() const { return codes_.n_tokens(); }
  int64_t n_encoded() const { return n_tokens(); }

  // One zero stands for all channels, so that of each query head's answer is one number.
  void accumulate_v(kvc::CompressedAttention& attention) const {
    at::Tensor sum;  // [H_kv, H_q / H_kv, 1]
    for_each_block([&](const kvc::LevelCodes& codes, const at::Tensor& zero, int64_t first) {
      const auto weights = attention.weights(first, codes.n_tokens()).unflatten(0, {zero.size(0), -1});
      attention.accumulate_v(codes, first);
      const auto part = at::bmm(weights, zero.to(at::kFloat));
      sum = sum.defined() ? sum.add_(part) : part;
    });
    if (sum.defined()) attention.add_out(sum.flatten(0, 1));
  }

  at::Tensor dequantize() const {  // [H, T, D] fp32; undefined without tokens
    std::vector<at::Tensor> parts;
    for_each_block([&](const kvc::LevelCodes& codes, const at::Tensor& zero, int64_t) {
      parts.push_back(codes.dequantize() + zero);
    });
    return parts.empty() ? at::Tensor() : at::cat(parts, 1);
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, kvc::ByteKind::codes);
    scales_.add_to(bytes, tensor, kvc::ByteKind::scales);
    zeros_.add_to(bytes, tensor, kvc::ByteKind::zeros);
  }

 private:
  template <class F>
  void for_each_block(F f) const {  // f(scale * code, zero [H, t, 1], index of the first token)
    int64_t first = 0;
    for (size_t i = 0; i < codes_.blocks().size(); ++i) {
      const auto& codes = codes_.blocks()[i];
      f(
          kvc::LevelCodes{
              .codes = codes, .scale = scales_.blocks()[i], .book = {kEvenLevels, bits_}, .head_dim = head_dim_},
          zeros_.blocks()[i], first);
      first += codes.size(1);
    }
  }

  int64_t bits_, head_dim_ = 0;
  at::ScalarType type_;
  kvc::TokenBlocks codes_, scales_, zeros_;  // of as many tokens, in blocks of as many
};

// Bytes without a scale; beyond 448 they saturate.
class FloatCodes {
 public:
  void push_back(const at::Tensor& x) { codes_.push_back(kvc::to_e4m3(x.to(at::kFloat).contiguous())); }
  int64_t n_tokens() const { return codes_.n_tokens(); }

  template <class F>
  void for_each_block(F f) const {
    int64_t first = 0;
    for (const auto& codes : codes_.blocks()) {
      const auto one = at::ones({codes.size(0), 1, 1}, codes.options().dtype(at::kFloat));
      f(kvc::LevelCodes{.codes = codes, .scale = one, .head_dim = codes.size(2)}, first);
      first += codes.size(1);
    }
  }

  void add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
    codes_.add_to(bytes, tensor, kvc::ByteKind::codes);
  }

 private:
  kvc::TokenBlocks codes_{at::kByte, kBlockTokens};
};

template <class Keys>
class PresetCache final : public kvc::TensorPairCache<Keys, EvenCodes> {
 public:
  PresetCache(const kvc::LayerInfo& info, Keys k, EvenCodes v, const Tables* k_tables)
      : kvc::TensorPairCache<Keys, EvenCodes>(info, std::move(k), std::move(v)), k_tables_(k_tables) {}

 private:
  at::Tensor to_basis(const at::Tensor& q) const override {
    const auto query = q.to(at::kFloat).contiguous();
    return k_tables_ ? rotate(query, *k_tables_) : query;
  }

  const Tables* k_tables_;  // null: floats
};

class ExactCache final : public kvc::StoredCache {
 public:
  using StoredCache::StoredCache;
  void append(const kvc::NewTokens& tokens) override { push_recent(tokens); }
  int64_t droppable(int64_t n_tokens) const override { return n_tokens; }
};

}  // namespace

Preset preset_named(const std::string& name) {
  static const std::map<std::string, Preset> all = {{"turboquant_k8v4", {8, 4}},
                                                    {"turboquant_4bit_nc", {4, 4}},
                                                    {"turboquant_k3v4_nc", {3, 4}},
                                                    {"turboquant_3bit_nc", {3, 3}}};
  return all.at(name);
}

at::Tensor hadamard(int64_t d, bool drawn, uint64_t seed) {
  auto matrix = at::ones({1, 1}, at::kFloat);
  while (matrix.size(0) < d) {
    matrix = at::cat({at::cat({matrix, matrix}, 1), at::cat({matrix, -matrix}, 1)}, 0);
  }
  if (!drawn) return matrix;
  const kvc::Projection normal(kvc::ProjectionKind::gaussian, seed, d, 1);
  return matrix * at::where(normal.matrix() > 0, 1., -1.).to(at::kFloat);
}

int64_t slot_bytes(const Preset& preset, int64_t head_dim) {
  const auto codes = [&](int64_t bits) { return (head_dim * bits + 7) / 8; };
  const int64_t bytes = codes(preset.k_bits) + (preset.turns_keys() ? 2 : 0) + codes(preset.v_bits) + 4;
  return bytes + bytes % 2;
}

std::unique_ptr<kvc::LayerCache> make_preset_cache(const kvc::LayerInfo& info, const Preset& preset,
                                                   const Tables* k_tables, kvc::Precision precision) {
  EvenCodes v(preset.v_bits, precision);
  if (k_tables) {
    return std::make_unique<PresetCache<RotatedCodes>>(info, RotatedCodes(*k_tables, precision), std::move(v),
                                                       k_tables);
  }
  using Keys = kvc::BlockwiseTensor<FloatCodes>;
  return std::make_unique<PresetCache<Keys>>(info, Keys(), std::move(v), nullptr);
}

std::unique_ptr<kvc::LayerCache> make_exact_cache(const kvc::LayerInfo& info, kvc::Precision precision) {
  const kvc::GroupFormat unused{.precision = precision};
  return std::make_unique<ExactCache>(info, unused, unused);
}

}  // namespace turboquant
