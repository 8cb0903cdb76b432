#include "range.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "codec.h"

namespace kvquant {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A zero or scale as it comes back from storage.
float held_in(float x, kvc::Precision precision) {
  const float held = rounded(x, precision);
  KVC_CHECK(std::isfinite(held), "kvquant: a range lies beyond fp16 (65504)");
  return held;
}

at::Tensor tensor_of(const std::vector<float>& values) {
  auto result = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), result.data_ptr<float>());
  return result;
}

}  // namespace

Range range_of_rows(const at::Tensor& x, const Format& format) {
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
  const int64_t n = range.zero.numel();
  const Range wide{at::empty({n}, at::kFloat), at::empty({n}, at::kFloat), range.zero, range.scale};
  const float steps = static_cast<float>((1 << format.bits) - 1);
  for (int64_t i = 0; i < n; ++i) {
    const float zero = range.zero.const_data_ptr<float>()[i], scale = range.scale.const_data_ptr<float>()[i];
    wide.lower.data_ptr<float>()[i] = zero - (format.uniform ? 0.5f : 1.f) * scale;
    wide.upper.data_ptr<float>()[i] = zero + (format.uniform ? steps + 0.5f : 1.f) * scale;
  }
  return wide;
}

Normalized normalized_inside(const at::Tensor& x, const Range& range, Axis axis, const Format& format,
                             const at::Tensor& weights) {
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
