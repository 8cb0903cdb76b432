#include "kvc/quant/projection.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "device_step.h"
#include "kernels/sign_products.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/shared.h"

namespace kvc {
namespace {

// Makes rows [first, last) of the row-major [m, d] matrix orthogonal, of length sqrt(d): Gram-Schmidt in double, each
// row twice. Our own, since a library's QR rounds by the number of its threads.
void orthogonalize(std::vector<double>& rows, int64_t d, int64_t first, int64_t last) {
  const auto dot = [d](const double* a, const double* b) {
    double sum = 0;
    for (int64_t i = 0; i < d; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (int64_t c = first; c < last; ++c) {
    double* row = rows.data() + c * d;
    for (int64_t pass = 0; pass < 2; ++pass) {
      for (const double* before = rows.data() + first * d; before != row; before += d) {
        const double along = dot(before, row) / static_cast<double>(d);
        for (int64_t i = 0; i < d; ++i) row[i] -= along * before[i];
      }
    }
    const double factor = std::sqrt(static_cast<double>(d) / dot(row, row));
    for (int64_t i = 0; i < d; ++i) row[i] *= factor;
  }
}

}  // namespace

Projection::Projection(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m) : d_(d), m_(m) {
  KVC_CHECK(d >= 1 && m >= 1, "projection: ", d, " x ", m);
  auto generator = at::detail::createCPUGenerator(seed);
  const auto drawn = at::randn({d, m}, generator, at::kFloat);
  if (kind == ProjectionKind::gaussian) {
    values_.assign(drawn.const_data_ptr<float>(), drawn.const_data_ptr<float>() + d * m);
    return;
  }
  const auto columns = drawn.t().to(at::kDouble).contiguous();  // [m, D]: the projection's columns side by side
  std::vector<double> rows(columns.const_data_ptr<double>(), columns.const_data_ptr<double>() + m * d);
  for (int64_t first = 0; first < m; first += d) orthogonalize(rows, d, first, std::min(first + d, m));
  values_.resize(static_cast<size_t>(d * m));
  for (int64_t j = 0; j < m; ++j) {
    for (int64_t i = 0; i < d; ++i) values_[i * m + j] = static_cast<float>(rows[j * d + i]);
  }
}

at::Tensor Projection::matrix() const {
  return at::from_blob(const_cast<float*>(values_.data()), {d_, m_}, at::kFloat);
}

at::Tensor least_squares_of_signs(const at::Tensor& s) {
  const auto wide = s.to(at::kDouble);
  const auto d = static_cast<double>(s.size(-2));
  const double a = std::sqrt(d / std::numbers::pi) * std::exp(std::lgamma(d / 2) - std::lgamma((d + 1) / 2));
  const auto columns = wide * (std::sqrt(d) / wide.norm(2, -2, true).clamp_min(1e-30));
  auto normal = at::matmul(columns, columns.transpose(-2, -1)).mul_(a * a);
  normal.diagonal(0, -2, -1).add_((1 - a * a) * d);
  return at::cholesky_solve(columns, at::linalg_cholesky(normal)).mul_(a);
}

const Projection& Projections::of(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m) const {
  const Shared shared;
  const std::lock_guard lock(mutex_);
  const Key key{kind, seed, d, m};
  const auto found = made_.find(key);
  return found != made_.end() ? found->second : made_.try_emplace(key, kind, seed, d, m).first->second;
}

at::Tensor Projections::matrix(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m, at::Device device) const {
  const auto& projection = of(kind, seed, d, m);
  if (device.is_cpu()) return projection.matrix();
  const Shared shared;
  const std::lock_guard lock(mutex_);
  auto& made = on_devices_[{Key{kind, seed, d, m}, device.type(), device.index()}];
  if (!made.defined()) made = projection.matrix().to(device);
  return made;
}

at::Tensor pack_signs(const at::Tensor& x) { return pack_bits(x.gt(0).to(at::kByte), 1); }

at::Tensor unpack_signs(const at::Tensor& words, int64_t m) {
  return unpack_bits(words, 1, m).to(at::kFloat).mul_(2).sub_(1);
}

at::Tensor dot_signs(const at::Tensor& x, const at::Tensor& words) {
  const int64_t n = words.size(1), m = x.size(1), group = x.size(0) / words.size(0);
  auto sums = at::zeros({x.size(0), n}, x.options());
  if (!x.is_cpu()) {
    constexpr float kSigns[] = {-1, 1};
    const LevelCodes signs{
        .codes = words, .scale = at::ones({1, 1, 1}, x.options()), .book = {kSigns, 1}, .head_dim = m};
    on_device::Step step(x.device());
    step.score(step.matrix_of(signs), x, sums);
    step.run();
    return sums;
  }
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto* rows = words.const_data_ptr<int32_t>() + i / group * n * words.size(2);
    dot_signs(x.const_data_ptr<float>() + i * m, m, rows, n, sums.data_ptr<float>() + i * n);
  }
  return sums;
}

void dot_signs(const float* x, int64_t m, const int32_t* words, int64_t n, float* sums) {
  const int64_t n_words = n_packed_words(m, 1);
  if (m % 32 == 0) return kernels::dot_signs(x, n_words, words, n, sums);
  std::vector<float> padded(static_cast<size_t>(32 * n_words), 0.f);
  std::copy(x, x + m, padded.begin());
  kernels::dot_signs(padded.data(), n_words, words, n, sums);
}

void project_channels(const float* x, std::span<const uint8_t> channels, const at::Tensor& s, int64_t m, float* out) {
  KVC_CHECK(m % 32 == 0 && m <= s.size(1), "project_channels: ", m, " columns, allowed: multiples of 32 up to ",
            s.size(1));
  kernels::mix_chosen_rows(x, channels.data(), static_cast<int64_t>(channels.size()), s.const_data_ptr<float>(),
                           s.stride(0), m, out);
}

void add_scaled(const at::Tensor& norms, int64_t first, int64_t n, double factor, const float* x, float* y) {
  if (norms.scalar_type() == at::kHalf) {
    const auto* halves = reinterpret_cast<const uint16_t*>(norms.const_data_ptr<at::Half>());
    return kernels::add_scaled_by_halves(halves + first, factor, x, n, y);
  }
  const float* whole = norms.const_data_ptr<float>() + first;
  for (int64_t t = 0; t < n; ++t) y[t] += static_cast<float>(factor) * whole[t] * x[t];
}

}  // namespace kvc
