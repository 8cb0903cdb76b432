#include "kvc/quant/low_rank.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kvc/part_timer.h"
#include "kvc/quant/group_quant.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/value_checks.h"

namespace kvc {
namespace {

at::Tensor orthonormal(const at::Tensor& x) { return std::get<0>(at::linalg_qr(x, "reduced")); }

// p grows with X^T X; dividing it by a power of two keeps every bit of its mantissas, and its columns' directions.
void scale_down_(at::Tensor& p) {
  if (!p.is_cpu()) {  // the power's exponent where a float has it
    const auto power = 128 - std::get<1>(at::frexp(p.abs().max()));
    p.mul_(power.clamp_(1, 254).bitwise_left_shift_(23).view(at::kFloat));
    return;
  }
  const float largest = p.abs().max().item<float>();
  if (largest > 0 && std::isfinite(largest)) p.mul_(std::exp2(-std::floor(std::log2(largest))));
}

at::Tensor stored(const at::Tensor& x, Precision precision) {
  if (precision == Precision::exact) return x.contiguous();
  return x.clamp(-65504.f, 65504.f).to(at::kHalf).contiguous();
}

at::Tensor floats_of(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero) {
  const auto floats = x.to(at::kFloat);
  return scale.defined() ? floats * scale.to(at::kFloat) + zero.to(at::kFloat) : floats;
}

// x [H, n, r] fp32 -> u8, and its columns' scales and zeros
at::Tensor eight_bits(const at::Tensor& x, Precision precision, at::Tensor& scale, at::Tensor& zero) {
  const auto codes = quantize_groups(x, {.bits = 8, .axis = GroupAxis::tokens, .precision = precision}).by_rows();
  scale = codes.scale.transpose(1, 2).contiguous(), zero = codes.zero.transpose(1, 2).contiguous();
  return unpack_bits(codes.codes, 8, x.size(1)).transpose(1, 2).contiguous();
}

}  // namespace

at::Tensor LowRank::a_floats() const { return floats_of(a, a_scale, a_zero); }
at::Tensor LowRank::b_floats() const { return floats_of(b, b_scale, b_zero); }

at::Tensor LowRank::product() const {
  const TimedPart timed(WorkPart::low_rank);
  return at::matmul(a_floats(), b_floats().transpose(1, 2));
}

void LowRank::add_to(Footprint& bytes, CacheTensor tensor) const {
  for (const auto& part : {a, b, a_scale, a_zero, b_scale, b_zero}) bytes.add(tensor, ByteKind::low_rank, part);
}

LowRank with_factors_of_8_bits(const LowRank& x, Precision precision) {
  LowRank held;
  held.a = eight_bits(x.a_floats(), precision, held.a_scale, held.a_zero);
  held.b = eight_bits(x.b_floats(), precision, held.b_scale, held.b_zero);
  return held;
}

LowRank low_rank_approximation(const at::Tensor& x, const at::Tensor& start, int64_t loops, Precision precision) {
  const TimedPart timed(WorkPart::low_rank);
  KVC_CHECK(loops >= 1, "low_rank: loops ", loops, ", allowed: 1 and more");
  KVC_CHECK(start.size(2) <= std::min(x.size(1), x.size(2)), "low_rank: rank ", start.size(2), " of a ", x.size(1),
            " x ", x.size(2), " matrix");
  const auto transposed = x.transpose(1, 2);  // [H, d, n]
  auto p = start, q = at::Tensor();           // p [H, d, r], q [H, n, r]
  for (int64_t loop = 0; loop < loops; ++loop) {
    const bool last = loop + 1 == loops;
    if (last) p = orthonormal(p);
    q = at::matmul(x, p);
    if (last) q = orthonormal(q);
    p = at::matmul(transposed, q);
    if (!last) scale_down_(p);
  }
  check_values(p.isfinite(), [n = x.size(1), d = x.size(2)] {
    return concat("low_rank: the factors of a ", n, " x ", d, " matrix are not finite");
  });
  return {.a = stored(q, precision), .b = stored(p, precision)};
}

at::Tensor low_rank_start(at::Generator& generator, int64_t n_heads, int64_t n, int64_t d, int64_t rank) {
  const TimedPart timed(WorkPart::low_rank);
  const int64_t r = std::min({rank, n, d});
  const auto p = at::rand({1, n_heads, d, r}, generator, at::kFloat);
  at::rand({1, n_heads, n, r}, generator, at::kFloat);  // Q's start: drawn, never read
  return p[0];
}

}  // namespace kvc
