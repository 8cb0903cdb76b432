#include "rotation.h"

#include <ATen/ATen.h>
#include <kvc/check.h>
#include <kvc/clones.h>

#include <cmath>

namespace kvquant {
namespace {

// One row of a head: channel i with channel i + D/2.
inline __attribute__((always_inline)) void rotate_row(float* x, int64_t half, const float* cosine, const float* sine) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
}

}  // namespace

at::Tensor rotated(const at::Tensor& x, int64_t first, std::span<const float> frequencies, int direction) {
  auto y = at::empty(x.sizes(), at::kFloat).copy_(x);
  if (frequencies.empty()) return y;
  const int64_t half = static_cast<int64_t>(frequencies.size()), n_tokens = x.size(1);
  KVC_CHECK(2 * half == x.size(2), "kvquant: ", half, " RoPE frequencies for head_dim ", x.size(2));
  std::vector<float> cosine(frequencies.size()), sine(frequencies.size());
  for (int64_t t = 0; t < n_tokens; ++t) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(first + t) * frequencies[i];
      cosine[i] = static_cast<float>(std::cos(angle)), sine[i] = static_cast<float>(std::sin(angle) * direction);
    }
    for (int64_t h = 0; h < x.size(0); ++h) {
      rotate_row(y.data_ptr<float>() + (h * n_tokens + t) * 2 * half, half, cosine.data(), sine.data());
    }
  }
  return y;
}

Turns::Turns(int64_t first, int64_t n, std::span<const float> frequencies)
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
      const double turned = c[i] * step_c[i] - s[i] * step_s[i];
      s[i] = s[i] * step_c[i] + c[i] * step_s[i];
      c[i] = turned;
    }
  }
}

KVC_CLONES void rotate(float* rows, int64_t n, int64_t head_dim, const Turns& turns) {
  const int64_t half = head_dim / 2;
  for (int64_t t = 0; t < n; ++t) {
    rotate_row(rows + t * head_dim, half, turns.cosine.data() + t * half, turns.sine.data() + t * half);
  }
}

}  // namespace kvquant
