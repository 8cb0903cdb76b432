// Random projections and their signs, for methods that sketch or rotate.
//   estimate of <q, k> from the signs of S^T k:  sqrt(pi/2)/m * |k| * <S^T q, sign(S^T k)>,  sign(0) = -1
// Over S with N(0, 1) entries: mean <q, k>, variance ((pi/2)|q|^2 |k|^2 - <q, k>^2)/m. With orthogonal blocks the mean
// is sqrt(d/2) Gamma(d/2) / Gamma((d+1)/2) = 1 + 1/(4d) times that, the variance smaller. Source: Zandieh et al. 2024
// (QJL), definition 1 and "orthogonalized JL transform".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "kvc/check.h"

namespace kvc {

enum class ProjectionKind : uint8_t {
  gaussian,    // N(0, 1) entries
  orthogonal,  // blocks of d columns, the last may be narrower: orthogonal, each column of length sqrt(d)
};

// S [d, m], drawn as torch.randn(d, m) after torch.manual_seed(seed). A constant of the method: its memory does not
// belong to a cache.
class KVC_EXPORT Projection {
 public:
  Projection(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m);
  at::Tensor matrix() const;  // [d, m] fp32, a view; the projection must outlive it

 private:
  int64_t d_, m_;
  std::vector<float> values_;
};

// W of S such that |x| W sign(S^T x) has the smallest mean squared error of all estimators linear in the signs, for x
// with uniform direction. [..., d, m] -> [..., d, m] fp64. With S~ the columns of S at length sqrt(d), u = x/|x|, and
//   a = E[s_j . u sign(s_j . u)] = sqrt(2/pi) sqrt(d/2) Gamma(d/2) / Gamma((d+1)/2)   (|s_j|^2 = d, E[u u^T] = I/d)
// the signs are z = a S~^T u + n with n uncorrelated to u (Bussgang), of variance 1 - a^2, and uncorrelated among each
// other up to the cubes of the columns' cosines (arcsine law). So the least squares are
//   W = a (a^2 S~ S~^T + (1 - a^2) d I)^-1 S~.
// Orthogonal blocks, m a multiple of d: S S^T = m I, W = a / (a^2 m + (1 - a^2) d) S, whose error is
//   E|x - x^|^2 / |x|^2 = (1 - a^2) d / (a^2 m + (1 - a^2) d).
KVC_EXPORT at::Tensor least_squares_of_signs(const at::Tensor& s);

// The projections of a compressor, each created once; the result depends only on the arguments, not on the order of
// calls. Thread-safe.
class KVC_EXPORT Projections {
 public:
  const Projection& of(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m) const;
  // The matrix on that device, shared by all caches there.
  at::Tensor matrix(ProjectionKind kind, uint64_t seed, int64_t d, int64_t m, at::Device device) const;

 private:
  mutable std::mutex mutex_;
  using Key = std::tuple<ProjectionKind, uint64_t, int64_t, int64_t>;
  mutable std::map<Key, Projection> made_;
  mutable std::map<std::tuple<Key, at::DeviceType, at::DeviceIndex>, at::Tensor> on_devices_;
};

// x [..., m] -> [..., ceil(m/32)] int32: bit 1 where x > 0.
KVC_EXPORT at::Tensor pack_signs(const at::Tensor& x);
// words [..., ceil(m/32)] -> [..., m] fp32, each -1 or 1
KVC_EXPORT at::Tensor unpack_signs(const at::Tensor& words, int64_t m);

// x [n * group, m] fp32, words [n, t, ceil(m/32)], on one device -> [n * group, t] fp32: <x, signs> for the rows that
// each `group` consecutive rows of x share.
KVC_EXPORT at::Tensor dot_signs(const at::Tensor& x, const at::Tensor& words);
// sums[t] = <x, signs of row t> for n rows of m/32 words each, on the CPU. x: m floats.
KVC_EXPORT void dot_signs(const float* x, int64_t m, const int32_t* words, int64_t n, float* sums);

// out[j] = sum over the given channels c of x[c] s[c, j], j < m, a multiple of 32: S^T x of x at these channels. On the
// CPU; s: [D, at least m] fp32, D up to 256.
KVC_EXPORT void project_channels(const float* x, std::span<const uint8_t> channels, const at::Tensor& s, int64_t m,
                                 float* out);

// y[t] += factor * norms[first + t] * x[t], t < n. norms: fp16 or fp32, contiguous, on the CPU.
KVC_EXPORT void add_scaled(const at::Tensor& norms, int64_t first, int64_t n, double factor, const float* x, float* y);

}  // namespace kvc
