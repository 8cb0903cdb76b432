#include "solver.h"

#include <ATen/ATen.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/value_checks.h>

// Each operation rounds as the public code's does: 1/10 and 1/range are multiplied by, means run in the order of the
// entries in memory. A code that stands near half a step would fall to the other side otherwise.
namespace hqq {
namespace {

constexpr double kBeta = 10, kNorm = 0.7;

at::Tensor shrunk(const at::Tensor& error) {
  const auto size = error.abs();
  return error.sign() * (size - size.pow(kNorm - 1) * (1 / kBeta)).relu();
}

struct Step {
  at::Tensor zero;   // [1, n_groups, 1]
  at::Tensor error;  // the mean of what zero left before
};

Step moved(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero, float levels) {
  const auto codes = (x * scale + zero).round_().clamp_(0, levels);
  const auto error = x - (codes - zero) / scale;
  return {(codes - (x - shrunk(error)) * scale).mean(-1, true), error.abs().mean()};
}

// Steps until one is no better than those before; on a device all of them, of which the later ones change nothing.
at::Tensor moved_on(const at::Tensor& x, const at::Tensor& scale, at::Tensor zero, float levels, int64_t iterations) {
  constexpr float kWorst = 1e4f;
  float best = kWorst;
  auto best_there = at::full({}, kWorst, x.options()), goes_on = best_there.gt(0);
  for (int64_t i = 0; i < iterations; ++i) {
    const auto step = moved(x, scale, zero, levels);
    if (x.is_cpu()) {
      zero = step.zero;
      if (!(step.error.item<float>() < best)) break;
      best = step.error.item<float>();
    } else {
      zero = at::where(goes_on, step.zero, zero);
      goes_on = goes_on.logical_and(step.error.lt(best_there));
      best_there = at::where(goes_on, step.error, best_there);
    }
  }
  return zero;
}

}  // namespace

Grid fitted(const at::Tensor& groups, int64_t bits, int64_t iterations) {
  const float levels = static_cast<float>((1 << bits) - 1);
  const auto low = groups.amin(-1, true), range = groups.amax(-1, true) - low;
  Grid grid;
  grid.scale = range.reciprocal().mul_(levels).masked_fill_(range <= 1e-4, 1).clamp_max_(2e4);
  grid.zero = moved_on(groups, grid.scale, -low * grid.scale, levels, iterations);
  return grid;
}

kvc::GroupCodes quantize(const at::Tensor& groups, int64_t bits, int64_t iterations, kvc::Precision precision) {
  const float levels = static_cast<float>((1 << bits) - 1);
  const auto [scale, zero] = fitted(groups, bits, iterations);
  kvc::GroupCodes result;
  result.scale = scale.reciprocal().to(kvc::storage_type(precision));
  result.zero = (-zero / scale).to(kvc::storage_type(precision));
  kvc::check_values(at::stack({result.scale, result.zero}).isfinite(),
                    [] { return "hqq: a value is not finite, or beyond fp16 (65504); its scale cannot be stored"; });
  auto codes = groups * scale + zero;
  if (precision == kvc::Precision::real) {
    codes = (groups - result.zero.to(at::kFloat)) / result.scale.to(at::kFloat);
  }
  result.codes = kvc::pack_bits(codes.round_().clamp_(0, levels).to(at::kByte), bits);
  result.format = {.bits = bits, .axis = kvc::GroupAxis::channels, .precision = precision};
  result.n_heads = 1, result.n_tokens = groups.size(1), result.head_dim = groups.size(2);
  return result;
}

}  // namespace hqq
