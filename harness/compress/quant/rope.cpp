#include "kvc/quant/rope.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kvc/check.h"
#include "kvc/clones.h"

namespace kvc {
namespace {

constexpr int64_t kLeastNumbers = 1 << 17;  // worth waking a thread for

// The rotated channels of one row of a head: channel i with channel i + half.
inline __attribute__((always_inline)) void rotate_row(float* x, int64_t half, const float* cosine, const float* sine) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

// Cosines and sines of positions first ... first + n - 1, [n, R/2].
struct RotationTables {
  std::vector<float> cosine, sine;
  RotationTables(int64_t first, int64_t n, std::span<const float> frequencies);
};

RotationTables::RotationTables(int64_t first, int64_t n, std::span<const float> frequencies)
    : cosine(static_cast<size_t>(n) * frequencies.size()), sine(cosine.size()) {
  const size_t half = frequencies.size();
  std::vector<double> c(half), s(half), step_c(half), step_s(half);
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(first) * frequencies[i];
    c[i] = std::cos(angle), s[i] = std::sin(angle);
    step_c[i] = std::cos(static_cast<double>(frequencies[i])),
    step_s[i] = std::sin(static_cast<double>(frequencies[i]));
  }
  for (size_t t = 0; t < static_cast<size_t>(n); ++t) {
    for (size_t i = 0; i < half; ++i) {
      cosine[t * half + i] = static_cast<float>(c[i]), sine[t * half + i] = static_cast<float>(s[i]);
      const double rotated = c[i] * step_c[i] - s[i] * step_s[i];
      s[i] = s[i] * step_c[i] + c[i] * step_s[i];
      c[i] = rotated;
    }
  }
}

KVC_CLONES void rotate_head(float* rows, int64_t n, int64_t head_dim, int64_t half, const RotationTables& rotations) {
  for (int64_t t = 0; t < n; ++t) {
    rotate_row(rows + t * head_dim, half, rotations.cosine.data() + t * half, rotations.sine.data() + t * half);
  }
}

// Where the CPU's loops do not reach.
at::Tensor turned_on_device(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction) {
  const auto position = at::arange(first, first + x.size(1), at::TensorOptions(at::kDouble).device(x.device()));
  const auto of_channel = at::tensor(at::ArrayRef<float>(frequencies.data(), frequencies.size())).to(x.device());
  const auto angles = at::outer(position, of_channel.to(at::kDouble));
  const auto cosine = angles.cos().to(at::kFloat), sine = angles.sin().mul_(direction).to(at::kFloat);
  const auto wide = x.to(at::kFloat);
  const int64_t half = angles.size(1);
  const auto low = wide.narrow(2, 0, half), high = wide.narrow(2, half, half);
  const auto rest = wide.narrow(2, 2 * half, wide.size(2) - 2 * half);
  return at::cat({low * cosine - high * sine, high * cosine + low * sine, rest}, 2);
}

}  // namespace

at::Tensor turned(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction) {
  auto y = at::empty(x.sizes(), x.options().dtype(at::kFloat)).copy_(x);
  if (frequencies.empty()) return y;
  const int64_t half = static_cast<int64_t>(frequencies.size()), n_tokens = x.size(1), head_dim = x.size(2);
  KVC_CHECK(2 * half <= head_dim, half, " RoPE frequencies for head_dim ", head_dim);
  if (!x.is_cpu()) return turned_on_device(x, first, frequencies, direction);
  std::vector<float> cosine(frequencies.size()), sine(frequencies.size());
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(first + t) * frequencies[i];
      cosine[i] = static_cast<float>(std::cos(angle)), sine[i] = static_cast<float>(std::sin(angle) * direction);
    }
    for (int64_t h = 0; h < x.size(0); ++h) {
      rotate_row(y.data_ptr<float>() + (h * n_tokens + t) * head_dim, half, cosine.data(), sine.data());
    }
  }
  return y;
}

void turn(const at::Tensor& x, int64_t first, std::span<const float> frequencies) {
  if (frequencies.empty()) return;
  if (!x.is_cpu()) {
    x.copy_(turned_on_device(x, first, frequencies, 1));
    return;
  }
  const int64_t n_tokens = x.size(1), head_dim = x.size(2), half = static_cast<int64_t>(frequencies.size());
  const RotationTables rotations(first, n_tokens, frequencies);
  at::parallel_for(0, x.size(0), std::max<int64_t>(1, kLeastNumbers / (n_tokens * head_dim)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t h = begin; h < end; ++h) {
                       rotate_head(x.data_ptr<float>() + h * n_tokens * head_dim, n_tokens, head_dim, half, rotations);
                     }
                   });
}

}  // namespace kvc
