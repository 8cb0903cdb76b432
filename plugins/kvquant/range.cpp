#include "range.h"

#include <kvc/value_checks.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "codec.h"

namespace kvquant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr auto kBeyondFp16 = "kvquant: a range is beyond fp16 (65504)";

// A zero or scale as it comes back from storage.
float held_in(float x, kvc::Precision precision) {
  const float held = rounded(x, precision);
  KVC_CHECK(std::isfinite(held), kBeyondFp16);
  return held;
}

at::Tensor tensor_of(const std::vector<float>& values) {
  auto result = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), result.data_ptr<float>());
  return result;
}

// A divisor as a tensor: a GPU would multiply by a number's inverse, which rounds twice.
at::Tensor divided(const at::Tensor& x, float by) { return x.div(at::full({}, by, x.options())); }

// codec::quantile of each row.
at::Tensor quantile_on_device(const at::Tensor& ascending, double p) {
  const int64_t len = ascending.size(1);
  const double at = p * static_cast<double>(len - 1);
  const auto below = static_cast<int64_t>(std::floor(at));
  const auto weight = static_cast<float>(at - std::floor(at));
  const auto a = ascending.select(1, below), b = ascending.select(1, std::min(below + 1, len - 1));
  return weight < 0.5f ? a + (b - a) * weight : b - (b - a) * (1 - weight);
}

// As range_of_rows, by operations that any device has.
Range range_on_device(const at::Tensor& x, const Format& format) {
  auto low = at::full({x.size(0)}, -kInfinity, x.options()), high = -low;
  if (format.sparsity > 0) {
    const auto ascending = std::get<0>(x.sort(1));
    low = quantile_on_device(ascending, format.sparsity / 2);
    high = quantile_on_device(ascending, 1 - format.sparsity / 2);
  }
  auto smallest = low, largest = high;
  if (format.uniform || format.sparsity <= 0) {
    const auto inside =
        x.gt(low.unsqueeze(1)).logical_and_(x.lt(high.unsqueeze(1))).logical_or_(low.eq(high).unsqueeze(1));
    smallest = at::where(inside, x, kInfinity).amin(1), largest = at::where(inside, x, -kInfinity).amax(1);
    const auto none = smallest.gt(largest);
    smallest = at::where(none, low, smallest), largest = at::where(none, low, largest);
  }
  const float steps = format.uniform ? static_cast<float>((1 << format.bits) - 1) : 2.f;
  const auto zero = format.uniform ? smallest : (largest + smallest).div(2);
  const auto held = [&](const at::Tensor& y) { return y.to(kvc::storage_type(format.precision)).to(at::kFloat); };
  const Range range{low, high, held(zero), held(divided(largest - smallest, steps))};
  kvc::check_values(at::stack({range.zero, range.scale}).isfinite(), [] { return kBeyondFp16; });
  return range;
}

}  // namespace

Range range_of_rows(const at::Tensor& x, const Format& format) {
  if (!x.is_cpu()) return range_on_device(x, format);
  const int64_t n = x.size(0), len = x.size(1);
  const auto table = [n] { return at::empty({n}, at::kFloat); };
  const Range range{table(), table(), table(), table()};
  const float steps = static_cast<float>((1 << format.bits) - 1);
  std::vector<float> row;
  for (int64_t i = 0; i < n; ++i) {
    const float* values = x.const_data_ptr<float>() + i * len;
    float low = -kInfinity, high = kInfinity;
    if (format.sparsity > 0) {
      row.assign(values, values + len);
      low = codec::quantile(row, format.sparsity / 2), high = codec::quantile(row, 1 - format.sparsity / 2);
    }
    auto bounds = codec::Bounds{low, high};
    if (format.uniform || format.sparsity <= 0) bounds = codec::bounds_between(values, len, low, high);
    const float zero = format.uniform ? bounds.smallest : (bounds.largest + bounds.smallest) / 2;
    const float scale = (bounds.largest - bounds.smallest) / (format.uniform ? steps : 2.f);
    range.lower.data_ptr<float>()[i] = low, range.upper.data_ptr<float>()[i] = high;
    range.zero.data_ptr<float>()[i] = held_in(zero, format.precision);
    range.scale.data_ptr<float>()[i] = held_in(scale, format.precision);
  }
  return range;
}

Range widened(const Range& range, const Format& format) {
  const float steps = static_cast<float>((1 << format.bits) - 1);
  const float below = format.uniform ? 0.5f : 1.f, above = format.uniform ? steps + 0.5f : 1.f;
  return {range.zero - range.scale.mul(below), range.zero + range.scale.mul(above), range.zero, range.scale};
}

Normalized normalized_inside(const at::Tensor& given_x, const Range& given_range, Axis axis, const Format& format,
                             const at::Tensor& weights) {
  const auto x = given_x.cpu();
  const Range range{given_range.lower.cpu(), given_range.upper.cpu(), given_range.zero.cpu(), given_range.scale.cpu()};
  const Table table(range, axis);
  std::vector<float> z, w;
  const float *values = x.const_data_ptr<float>(),
              *given = weights.defined() ? weights.const_data_ptr<float>() : nullptr;
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      const int64_t at = t * x.size(1) + j, i = table.at(t, j);
      if (table.scale[i] == 0 || codec::is_outlier(values[at], table.lower[i], table.upper[i], format.uniform))
        continue;
      z.push_back(codec::normalized(values[at], table.zero[i], table.scale[i]));
      if (given) w.push_back(given[at]);
    }
  }
  return {tensor_of(z), given ? tensor_of(w) : at::Tensor()};
}

}  // namespace kvquant
