#include "key_sketch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <kvc/value_checks.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

namespace qjl {
namespace {

const double kFactor = std::sqrt(std::numbers::pi / 2);
constexpr int64_t kLeastTokens = 1024;  // of all heads, worth waking a thread for
constexpr int64_t kGroupsAtOnce = 16;   // whose queries are projected together on a device

at::Tensor stored(const at::Tensor& norms, kvc::Precision precision) {
  auto held = norms.to(kvc::storage_type(precision)).contiguous();
  kvc::check_values(held.isfinite(), [norms] {
    return kvc::concat("qjl: the norm of a key is ", norms.max().item<double>(), ", beyond fp16 (65504)");
  });
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

at::Tensor projected(const at::Tensor& q, const Sketches& s) {
  const int64_t d = q.size(1), m = s.keys.size(1);
  if (!q.is_cpu()) return at::matmul(q, s.keys);
  std::vector<uint8_t> all(static_cast<size_t>(d));
  std::iota(all.begin(), all.end(), uint8_t{0});
  auto result = at::empty({q.size(0), m}, at::kFloat);
  for (int64_t i = 0; i < q.size(0); ++i) {
    kvc::project_channels(q.const_data_ptr<float>() + i * d, all, s.keys, m, result.data_ptr<float>() + i * m);
  }
  return result;
}

namespace {

// One query's scores with one head's keys, group after group: what it projects to without their outlier channels, and
// what these project to, meet the groups' signs.
class HeadScores {
 public:
  HeadScores(const KeySketch& keys, const Sketches& s, const SketchFormat& format, const at::Tensor& fixed)
      : keys_(keys),
        s_(s),
        m_(format.n_signs),
        m_out_(format.n_outlier_signs),
        channels_(keys.outlier_signs.defined() ? channels_of(keys, fixed) : at::Tensor()),
        n_groups_(channels_.defined() ? channels_.size(1) : 1),
        n_(keys.n_tokens() / n_groups_),
        out_(static_cast<size_t>(std::max(m_, m_out_))),
        in_(static_cast<size_t>(m_)),
        sums_(static_cast<size_t>(n_)) {}

  // query: [D]; whole: S^T query
  void add(int64_t head, const float* query, const float* whole, float* scores) {
    for (int64_t g = 0; g < n_groups_; ++g) {
      const int64_t first = head * keys_.n_tokens() + g * n_;
      float* to = scores + g * n_;
      if (channels_.defined()) add_outliers(head, g, query, whole, to);
      add(keys_.signs, keys_.norms, m_, channels_.defined() ? in_.data() : whole, first, to);
    }
  }

 private:
  void add_outliers(int64_t head, int64_t g, const float* query, const float* whole, float* to) {
    const auto n_channels = static_cast<size_t>(channels_.size(2));
    const auto row = static_cast<size_t>(head * n_groups_ + g);
    const std::span apart(channels_.const_data_ptr<uint8_t>() + row * n_channels, n_channels);
    kvc::project_channels(query, apart, s_.keys, m_, out_.data());
    for (size_t j = 0; j < in_.size(); ++j) in_[j] = whole[j] - out_[j];
    if (!s_.outliers.is_alias_of(s_.keys)) kvc::project_channels(query, apart, s_.outliers, m_out_, out_.data());
    const int64_t first = head * keys_.n_tokens() + g * n_;
    add(keys_.outlier_signs, keys_.outlier_norms, m_out_, out_.data(), first, to);
  }

  void add(const at::Tensor& signs, const at::Tensor& norms, int64_t m, const float* x, int64_t first, float* to) {
    kvc::dot_signs(x, m, signs.const_data_ptr<int32_t>() + first * (m / 32), n_, sums_.data());
    kvc::add_scaled(norms, first, n_, kFactor / static_cast<double>(m), sums_.data(), to);
  }

  const KeySketch& keys_;
  const Sketches& s_;
  int64_t m_, m_out_;
  at::Tensor channels_;   // [H, n_groups_, C] u8; undefined without outliers
  int64_t n_groups_, n_;  // of n_ tokens
  std::vector<float> out_, in_, sums_;
};

// The same of all heads, on a device: q and what it projects to in each group of tokens, [H, n_q, G, ..].
at::Tensor estimate_on_device(const at::Tensor& q, const at::Tensor& projected, const KeySketch& keys,
                              const Sketches& s, const at::Tensor& fixed) {
  const int64_t n_heads = keys.signs.size(0), n_tokens = keys.n_tokens(), n_q = q.size(0) / n_heads;
  const auto estimate = [&](const at::Tensor& x, const at::Tensor& signs, const at::Tensor& norms) {
    const int64_t n_groups = x.size(2), m = x.size(3), n = norms.size(1);
    const auto rows = x.transpose(1, 2).reshape({n_heads * n_groups * n_q, m});
    const auto sums = kvc::dot_signs(rows, signs.view({n_heads * n_groups, n / n_groups, -1}));
    const auto by_head = sums.view({n_heads, n_groups, n_q, -1}).transpose(1, 2).reshape({n_heads, n_q, n});
    return by_head * norms.to(at::kFloat).mul(kFactor / static_cast<double>(m)).unsqueeze(1);
  };
  const auto whole = projected.view({n_heads, n_q, 1, -1});
  if (!keys.outlier_signs.defined()) return estimate(whole, keys.signs, keys.norms).flatten(0, 1);
  const auto& channels = channels_of(keys, fixed);
  const auto mask = outlier_mask(channels, channels.size(1), q.size(1)).unsqueeze(1);  // [H, 1, G, D]
  const int64_t n_groups = mask.size(2), n = n_tokens / n_groups;
  std::vector<at::Tensor> scores;  // each [H, n_q, t]
  for (int64_t g = 0; g < n_groups; g += kGroupsAtOnce) {
    const int64_t n_some = std::min(kGroupsAtOnce, n_groups - g);
    const auto tokens = [&](const at::Tensor& x) { return x.narrow(1, g * n, n_some * n).contiguous(); };
    const auto apart = q.view({n_heads, n_q, 1, -1}) * mask.narrow(2, g, n_some);
    const auto inside = estimate(whole - at::matmul(apart, s.keys), tokens(keys.signs), tokens(keys.norms));
    scores.push_back(inside +
                     estimate(at::matmul(apart, s.outliers), tokens(keys.outlier_signs), tokens(keys.outlier_norms)));
  }
  return at::cat(scores, 2).flatten(0, 1);
}

}  // namespace

at::Tensor estimate_scores(const at::Tensor& q, const at::Tensor& projected, const KeySketch& keys, const Sketches& s,
                           const SketchFormat& format, const at::Tensor& fixed) {
  const int64_t n_tokens = keys.n_tokens(), d = q.size(1), m = format.n_signs;
  if (!q.is_cpu()) return estimate_on_device(q, projected, keys, s, fixed);
  const int64_t per_head = q.size(0) / keys.signs.size(0);
  auto scores = at::zeros({q.size(0), n_tokens}, at::kFloat);
  float* to = scores.data_ptr<float>();
  const int64_t n_least = std::max<int64_t>(1, kLeastTokens / n_tokens);
  at::parallel_for(0, q.size(0), n_least, [&](int64_t begin, int64_t end) {
    HeadScores head(keys, s, format, fixed);
    for (int64_t i = begin; i < end; ++i) {
      const float *query = q.const_data_ptr<float>() + i * d, *whole = projected.const_data_ptr<float>() + i * m;
      head.add(i / per_head, query, whole, to + i * n_tokens);
    }
  });
  return scores;
}

}  // namespace qjl
