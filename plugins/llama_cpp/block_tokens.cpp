#include "block_tokens.h"

#include <ATen/ATen.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/step_writes.h>
#include <kvc/value_checks.h>

#include <algorithm>
#include <array>
#include <vector>

namespace llama_cpp {
namespace {

constexpr int64_t kBlockTokens = 64;
constexpr auto kCoded = at::ScalarType::Undefined;
constexpr std::array<float, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};  // of iq4_nl
constexpr std::array<float, 16> kCentred4 = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::array<float, 16> kCounted4 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr std::array<float, 2> kFifthCentred = {-16, 0}, kFifth = {0, 16};
constexpr float kLeastNonLinear = 1e-15f;  // iq4_nl: blocks below it become zeros

at::Tensor one_over(const at::Tensor& d) { return d.reciprocal().masked_fill_(d == 0, 0); }

// Half away from zero.
at::Tensor rounded(const at::Tensor& x) { return (x.abs() + 0.5f).floor_().mul_(x.sign()); }

// The entry of largest magnitude, the first of equal ones: [..., 1]
at::Tensor top_of(const at::Tensor& x) { return x.gather(-1, x.abs().argmax(-1, true)); }

std::string scale_beyond_half() { return "llama_cpp: the scale of a block is beyond fp16 (65504)"; }

at::Tensor to_half(const at::Tensor& d) {
  const auto half = d.squeeze(-1).to(at::kHalf);
  kvc::check_values(half.isfinite(), scale_beyond_half);
  return half;
}

Blocks encode_by_maximum(const at::Tensor& x) {
  const auto d = x.abs().amax(-1, true) / at::full({}, 127.f, x.options());
  return {(rounded(x * one_over(d)) + 127).to(at::kByte), to_half(d), {}};
}

// Truncation of x / d + 2^(b-1) + 1/2.
Blocks encode_centred(const at::Tensor& x, int64_t bits) {
  const auto middle = static_cast<float>(int64_t{1} << (bits - 1));
  const auto d = top_of(x) / at::full({}, -middle, x.options());
  return {(x * one_over(d) + (middle + 0.5f)).floor_().clamp_(0, 2 * middle - 1).to(at::kByte), to_half(d), {}};
}

Blocks encode_from_minimum(const at::Tensor& x, int64_t bits) {
  const auto m = x.amin(-1, true);
  const int64_t top = (int64_t{1} << bits) - 1;
  const auto d = (x.amax(-1, true) - m) / at::full({}, static_cast<float>(top), x.options());
  return {((x - m) * one_over(d) + 0.5f).floor_().clamp_(0, top).to(at::kByte), to_half(d), to_half(m)};
}

Blocks encode_to_levels(const at::Tensor& x) {
  const auto levels = at::tensor(std::vector<float>(kLevels.begin(), kLevels.end()), x.options());
  std::vector<float> middles;
  for (size_t i = 0; i + 1 < kLevels.size(); ++i) middles.push_back((kLevels[i] + kLevels[i + 1]) / 2);
  const auto top = top_of(x);
  const auto tiny = top.abs() < kLeastNonLinear;
  const auto scaled = x * one_over(top / kLevels[0]);
  const auto codes =
      at::bucketize(scaled.contiguous(), at::tensor(middles, x.options()), false, /*right=*/true).masked_fill_(tiny, 0);
  const auto chosen = levels.index_select(0, codes.flatten()).view(x.sizes()).to(at::kDouble);
  const auto weight = x.to(at::kDouble).square();
  const auto numerator = (weight * chosen * x).sum(-1, true), denominator = (weight * chosen.square()).sum(-1, true);
  const auto d = (numerator / denominator).masked_fill_(tiny | (denominator == 0), 0).to(at::kFloat);
  return {codes.to(at::kByte), to_half(d), {}};
}

at::Tensor in_blocks(const at::Tensor& x) { return x.to(at::kFloat).unflatten(-1, {x.size(-1) / kBlock, kBlock}); }

}  // namespace

const Type& type_named(const std::string& name) {
  static constexpr std::array<Type, 9> types = {{{"f32", 32, at::kFloat},
                                                 {"f16", 16, at::kHalf},
                                                 {"bf16", 16, at::kBFloat16},
                                                 {"q8_0", 8, kCoded},
                                                 {"q5_1", 5, kCoded, true},
                                                 {"q5_0", 5, kCoded},
                                                 {"q4_1", 4, kCoded, true},
                                                 {"q4_0", 4, kCoded},
                                                 {"iq4_nl", 4, kCoded, false, true}}};
  const auto found = std::find_if(types.begin(), types.end(), [&](const Type& type) { return type.name == name; });
  KVC_CHECK(found != types.end(), "llama_cpp: no type '", name, "'");
  return *found;
}

Blocks encode(const at::Tensor& x, const Type& type) {
  if (type.has_levels) return encode_to_levels(x);
  if (type.has_minimum) return encode_from_minimum(x, type.bits);
  return type.bits == 8 ? encode_by_maximum(x) : encode_centred(x, type.bits);
}

at::Tensor decode(const Blocks& blocks, const Type& type) {
  const auto d = blocks.d.to(at::kFloat).unsqueeze(-1);
  if (type.has_levels) {
    const auto levels = at::tensor(std::vector<float>(kLevels.begin(), kLevels.end()), d.options());
    return levels.index_select(0, blocks.codes.to(at::kInt).flatten()).view(blocks.codes.sizes()) * d;
  }
  auto x = blocks.codes.to(at::kFloat);
  if (!type.has_minimum) x -= type.bits == 8 ? 127 : 1 << (type.bits - 1);
  x *= d;
  return type.has_minimum ? x.add_(blocks.m.to(at::kFloat).unsqueeze(-1)) : x;
}

at::Tensor rounded_query(const at::Tensor& q, const Type& of_keys) {
  if (!of_keys.is_quantized()) return q.to(of_keys.exact).to(at::kFloat);
  const auto& type = type_named("q8_0");
  return decode(encode(in_blocks(q), type), type).flatten(-2);
}

BlockTokens::BlockTokens(const Type& type, int64_t head_dim)
    : type_(&type),
      head_dim_(head_dim),
      low_(at::kInt, kBlockTokens),
      high_(at::kInt, kBlockTokens),
      scales_(at::kHalf, kBlockTokens),
      minima_(at::kHalf, kBlockTokens),
      exact_(type.is_quantized() ? at::kHalf : type.exact, kBlockTokens) {}

bool BlockTokens::write(const at::Tensor& x) {
  auto* writes = kvc::StepWrites::of_device(x.device());
  if (!writes || x.size(1) != 1 || type_->has_levels || !kvc::StepWrites::takes(x)) return false;
  std::vector<at::Tensor> into;
  const auto next = [&](kvc::TokenBlocks& blocks, int64_t width) {
    into.push_back(blocks.next_place(x.size(0), width, *writes));
    return kvc::StepWrites::rows_of(into.back());
  };
  kvc::DeviceWrite write{.what = kvc::DeviceWrite::What::blocks};
  write.rule = type_->has_minimum ? kvc::BlockRule::from_minimum
               : type_->bits == 8 ? kvc::BlockRule::by_maximum
                                  : kvc::BlockRule::centred;
  write.bits = static_cast<int>(type_->bits), write.group_size = kBlock;
  write.to = next(low_, kvc::n_packed_words(head_dim_, type_->low_bits()));
  if (type_->bits == 5) write.high = next(high_, kvc::n_packed_words(head_dim_, 1));
  write.scale = next(scales_, head_dim_ / kBlock);
  if (type_->has_minimum) write.zero = next(minima_, head_dim_ / kBlock);
  kvc::check_values(writes->encode(x, write, std::move(into)), scale_beyond_half);
  return true;
}

void BlockTokens::push_back(const at::Tensor& x) {
  if (!type_->is_quantized()) return exact_.push_back(x);
  if (write(x)) return;
  const auto blocks = encode(in_blocks(x), *type_);
  const auto codes = blocks.codes.flatten(-2);
  low_.push_back(kvc::pack_bits(type_->bits == 5 ? codes.bitwise_and(15) : codes, type_->low_bits()));
  if (type_->bits == 5) high_.push_back(kvc::pack_bits(codes.bitwise_right_shift(4), 1));
  scales_.push_back(blocks.d);
  if (type_->has_minimum) minima_.push_back(blocks.m);
}

void BlockTokens::drop_front(int64_t n_tokens) {
  for (auto* part : {&low_, &high_, &scales_, &minima_, &exact_}) {
    if (part->n_tokens() > 0) part->drop_front(n_tokens);
  }
}

at::Tensor BlockTokens::dequantize() const {
  if (!type_->is_quantized()) return exact_.all();
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < low_.blocks().size(); ++i) {
    auto codes = kvc::unpack_bits(low_.blocks()[i], type_->low_bits(), head_dim_);
    if (type_->bits == 5) {
      codes = codes.bitwise_or(kvc::unpack_bits(high_.blocks()[i], 1, head_dim_).bitwise_left_shift(4));
    }
    const Blocks blocks{codes.unflatten(-1, {head_dim_ / kBlock, kBlock}), scales_.blocks()[i],
                        type_->has_minimum ? minima_.blocks()[i] : at::Tensor()};
    all.push_back(decode(blocks, *type_).flatten(-2));
  }
  return all.empty() ? at::Tensor() : at::cat(all, 1);
}

template <class F>
void BlockTokens::for_each_part(F f) const {
  int64_t first = 0;
  for (size_t i = 0; i < low_.blocks().size(); ++i) {
    const auto &low = low_.blocks()[i], &scale = scales_.blocks()[i];
    const auto levels = [&](const at::Tensor& codes, const float* book, int64_t bits) {
      f(kvc::LevelCodes{.codes = codes, .scale = scale, .book = {book, bits}, .head_dim = head_dim_}, first);
    };
    if (type_->has_minimum || type_->bits == 8) {
      f(kvc::GroupCodes{.codes = low,
                        .scale = scale,
                        .zero = type_->has_minimum ? minima_.blocks()[i] : at::Tensor(),
                        .format = {.bits = type_->low_bits(), .group_size = kBlock, .symmetric = !type_->has_minimum},
                        .n_heads = low.size(0),
                        .n_tokens = low.size(1),
                        .head_dim = head_dim_},
        first);
    } else {
      levels(low, type_->has_levels ? kLevels.data() : type_->bits == 5 ? kCounted4.data() : kCentred4.data(), 4);
    }
    if (type_->bits == 5) levels(high_.blocks()[i], (type_->has_minimum ? kFifth : kFifthCentred).data(), 1);
    first += low.size(1);
  }
}

void BlockTokens::score(kvc::CompressedAttention& attention) const {
  if (!type_->is_quantized()) return attention.score(exact_, 0);
  for_each_part([&](const auto& codes, int64_t first) { attention.score(codes, first); });
}

void BlockTokens::accumulate_v(kvc::CompressedAttention& attention) const {
  if (!type_->is_quantized()) return attention.accumulate_v(exact_, 0);
  for_each_part([&](const auto& codes, int64_t first) { attention.accumulate_v(codes, first); });
}

void BlockTokens::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  low_.add_to(bytes, tensor, kvc::ByteKind::codes);
  high_.add_to(bytes, tensor, kvc::ByteKind::codes);
  scales_.add_to(bytes, tensor, kvc::ByteKind::scales);
  minima_.add_to(bytes, tensor, kvc::ByteKind::zeros);
  exact_.add_to(bytes, tensor);
}

}  // namespace llama_cpp
