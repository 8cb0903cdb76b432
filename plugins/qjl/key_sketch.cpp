#include "key_sketch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

namespace qjl {
namespace {

const double kFactor = std::sqrt(std::numbers::pi / 2);

at::Tensor stored(const at::Tensor& norms, kvc::Precision precision) {
  auto held = norms.to(kvc::storage_type(precision)).contiguous();
  KVC_CHECK(held.isfinite().all().item<bool>(), "qjl: the norm of a key is ", norms.max().item<double>(),
            ", beyond fp16 (65504)");
  return held;
}

// The channels of each token's group: [H, n_groups or 1, C] -> [H, T, D] bool.
at::Tensor outlier_mask(const at::Tensor& channels, int64_t n_tokens, int64_t head_dim) {
  const int64_t n_heads = channels.size(0), n_groups = channels.size(1);
  const auto mask = at::zeros({n_heads, n_groups, head_dim}, channels.options().dtype(at::kBool))
                        .scatter_(2, channels.to(at::kLong), true);
  return mask.unsqueeze(2).expand({n_heads, n_groups, n_tokens / n_groups, head_dim}).flatten(1, 2);
}

at::Tensor column(const at::Tensor& norms, int64_t n_signs) {
  return norms.to(at::kFloat).mul(kFactor / static_cast<double>(n_signs)).unsqueeze(2);  // [H, T, 1]
}

const at::Tensor& channels_of(const KeySketch& keys, const at::Tensor& fixed) {
  return keys.channels.defined() ? keys.channels : fixed;
}

}  // namespace

at::Tensor outlier_channels(const at::Tensor& x, int64_t group_size, int64_t n_channels) {
  const auto norms = x.unflatten(1, {x.size(1) / group_size, group_size}).norm(2, 2);  // [H, T/g, D]
  const auto order = norms.argsort(/*stable=*/true, /*dim=*/2, /*descending=*/true);   // ties go to the lowest channel
  return order.narrow(2, 0, n_channels).to(at::kByte).contiguous();
}

void KeySketch::add_to(kvc::Footprint& bytes) const {
  bytes.add(kvc::CacheTensor::k, kvc::ByteKind::sketch, signs);
  bytes.add(kvc::CacheTensor::k, kvc::ByteKind::sketch, outlier_signs);
  bytes.add(kvc::CacheTensor::k, kvc::ByteKind::norms, norms);
  bytes.add(kvc::CacheTensor::k, kvc::ByteKind::norms, outlier_norms);
  bytes.add(kvc::CacheTensor::k, kvc::ByteKind::index, channels);
}

KeySketch sketch_keys(const at::Tensor& k, const Sketches& s, const SketchFormat& format, const at::Tensor& fixed) {
  KeySketch keys;
  auto inliers = k;
  if (format.n_outlier_channels > 0) {
    if (!fixed.defined()) keys.channels = outlier_channels(k, format.group_size, format.n_outlier_channels);
    const auto mask = outlier_mask(channels_of(keys, fixed), k.size(1), k.size(2));
    const auto outliers = k.masked_fill(mask.logical_not(), 0);
    inliers = k.masked_fill(mask, 0);
    keys.outlier_signs = kvc::pack_signs(at::matmul(outliers, s.outliers));
    keys.outlier_norms = stored(outliers.norm(2, 2), format.precision);
  }
  keys.signs = kvc::pack_signs(at::matmul(inliers, s.keys));
  keys.norms = stored(inliers.norm(2, 2), format.precision);
  return keys;
}

at::Tensor linear_functionals(const KeySketch& keys, const Sketches& s, const SketchFormat& format,
                              const at::Tensor& fixed) {
  const auto x =
      at::matmul(kvc::unpack_signs(keys.signs, format.n_signs), s.keys.t()) * column(keys.norms, format.n_signs);
  if (!keys.outlier_signs.defined()) return x;
  const auto mask = outlier_mask(channels_of(keys, fixed), x.size(1), x.size(2));
  const int64_t m = format.n_outlier_signs;
  const auto outliers =
      at::matmul(kvc::unpack_signs(keys.outlier_signs, m), s.outliers.t()) * column(keys.outlier_norms, m);
  return at::where(mask, outliers, x);
}

namespace {

// |x| W sign(.): signs [..., t, m], norms [..., t], W [..., n, m] -> [..., t, n] fp64
at::Tensor nearest(const at::Tensor& signs, const at::Tensor& norms, const at::Tensor& w) {
  return at::matmul(signs.to(at::kDouble), w.transpose(-2, -1)) * norms.to(at::kDouble).unsqueeze(-1);
}

}  // namespace

at::Tensor nearest_keys(const KeySketch& keys, const Sketches& s, const SketchFormat& format, const at::Tensor& fixed) {
  auto x = nearest(kvc::unpack_signs(keys.signs, format.n_signs), keys.norms, kvc::least_squares_of_signs(s.keys));
  if (!keys.outlier_signs.defined()) return x.to(at::kFloat);
  const auto channels = channels_of(keys, fixed).to(at::kLong);  // [H, G, C]
  const int64_t n_groups = channels.size(1), n = x.size(1) / n_groups;
  const auto rows = s.outliers.index_select(0, channels.flatten());
  const auto w = kvc::least_squares_of_signs(rows.view({channels.size(0), n_groups, channels.size(2), -1}));
  const auto signs = kvc::unpack_signs(keys.outlier_signs, format.n_outlier_signs).unflatten(1, {n_groups, n});
  const auto outliers = nearest(signs, keys.outlier_norms.unflatten(1, {n_groups, n}), w);  // [H, G, n, C]
  x.unflatten(1, {n_groups, n}).scatter_(3, channels.unsqueeze(2).expand_as(outliers), outliers);
  return x.to(at::kFloat);
}

namespace {

// out[j] = sum of q[c] s[c, j] over the given channels c, j < n.
void project(const float* q, const uint8_t* channels, int64_t n_channels, const at::Tensor& s, int64_t n, float* out) {
  std::fill(out, out + n, 0.f);
  for (int64_t i = 0; i < n_channels; ++i) {
    const float* row = s.const_data_ptr<float>() + channels[i] * s.stride(0);
    for (int64_t j = 0; j < n; ++j) out[j] += q[channels[i]] * row[j];
  }
}

// scores[t] += factor * norms[t] * sums[t]
void add_scaled(const at::Tensor& norms, int64_t first, int64_t n, double factor, const float* sums, float* scores) {
  const bool half = norms.scalar_type() == at::kHalf;
  for (int64_t t = 0; t < n; ++t) {
    const float norm = half ? static_cast<float>(norms.const_data_ptr<at::Half>()[first + t])
                            : norms.const_data_ptr<float>()[first + t];
    scores[t] += static_cast<float>(factor) * norm * sums[t];
  }
}

}  // namespace

at::Tensor projected(const at::Tensor& q, const Sketches& s) {
  const int64_t d = q.size(1), m = s.keys.size(1);
  std::vector<uint8_t> all(static_cast<size_t>(d));
  std::iota(all.begin(), all.end(), uint8_t{0});
  auto result = at::empty({q.size(0), m}, at::kFloat);
  for (int64_t i = 0; i < q.size(0); ++i) {
    project(q.const_data_ptr<float>() + i * d, all.data(), d, s.keys, m, result.data_ptr<float>() + i * m);
  }
  return result;
}

at::Tensor estimate_scores(const at::Tensor& q, const at::Tensor& projected, const KeySketch& keys, const Sketches& s,
                           const SketchFormat& format, const at::Tensor& fixed) {
  const int64_t n_heads = keys.signs.size(0), n_tokens = keys.n_tokens(), d = q.size(1), m = format.n_signs;
  const int64_t m_out = format.n_outlier_signs, per_head = q.size(0) / n_heads;
  const bool has_outliers = keys.outlier_signs.defined();
  const bool shared = has_outliers && s.outliers.is_alias_of(s.keys);
  const auto channels = has_outliers ? channels_of(keys, fixed) : at::Tensor();
  const int64_t n_groups = has_outliers ? channels.size(1) : 1, n = n_tokens / n_groups;
  auto scores = at::zeros({q.size(0), n_tokens}, at::kFloat);
  std::vector<float> out(static_cast<size_t>(std::max(m, m_out))), in(static_cast<size_t>(m)),
      sums(static_cast<size_t>(n));
  for (int64_t i = 0; i < q.size(0); ++i) {
    const int64_t h = i / per_head;
    const float *query = q.const_data_ptr<float>() + i * d, *whole = projected.const_data_ptr<float>() + i * m;
    for (int64_t g = 0; g < n_groups; ++g) {
      const int64_t first = h * n_tokens + g * n;
      float* to = scores.data_ptr<float>() + i * n_tokens + g * n;
      if (has_outliers) {
        const int64_t n_channels = channels.size(2);
        const uint8_t* apart = channels.const_data_ptr<uint8_t>() + (h * n_groups + g) * n_channels;
        project(query, apart, n_channels, s.keys, m, out.data());
        for (int64_t j = 0; j < m; ++j) in[j] = whole[j] - out[j];
        if (!shared) project(query, apart, n_channels, s.outliers, m_out, out.data());
        kvc::dot_signs(out.data(), m_out, keys.outlier_signs.const_data_ptr<int32_t>() + first * (m_out / 32), n,
                       sums.data());
        add_scaled(keys.outlier_norms, first, n, kFactor / static_cast<double>(m_out), sums.data(), to);
      }
      kvc::dot_signs(has_outliers ? in.data() : whole, m, keys.signs.const_data_ptr<int32_t>() + first * (m / 32), n,
                     sums.data());
      add_scaled(keys.norms, first, n, kFactor / static_cast<double>(m), sums.data(), to);
    }
  }
  return scores;
}

}  // namespace qjl
