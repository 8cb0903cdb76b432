#include "kvc/quant/outliers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "kvc/part_timer.h"
#include "kvc/value_checks.h"
#include "transposed.h"

namespace kvc {
namespace {

// [H, T, D] as one vector a row: axis tokens [H, D, T], axis channels [T, H*D]
at::Tensor to_vectors(const at::Tensor& x, GroupAxis axis) {
  if (axis == GroupAxis::tokens) return by_channels(x);
  return x.transpose(0, 1).reshape({x.size(1), x.size(0) * x.size(2)});
}

at::Tensor from_vectors(const at::Tensor& vectors, GroupAxis axis, int64_t n_heads) {
  if (axis == GroupAxis::tokens) return vectors.transpose(1, 2);
  return vectors.view({vectors.size(0), n_heads, -1}).transpose(0, 1);
}

at::Tensor long_index(const Outliers& s) { return s.index.to(at::kLong); }

// What a thread needs to pick from a vector.
struct Scratch {
  std::vector<float> sample, values, held;
  std::vector<int32_t> near;  // positions that may be among the k smallest or largest, ascending
};

// Keeps the positions of entries up to `low` and from `high` on, or that are no numbers; how many of either.
std::pair<int64_t, int64_t> keep_near(const float* x, int64_t n, float low, float high, std::vector<int32_t>& near) {
  near.resize(static_cast<size_t>(n));
  int64_t n_near = 0, n_low = 0, n_high = 0;
  for (int64_t i = 0; i < n; ++i) {
    near[n_near] = static_cast<int32_t>(i);
    n_near += x[i] > low && x[i] < high ? 0 : 1;
    n_low += x[i] <= low ? 1 : 0, n_high += x[i] >= high ? 1 : 0;
  }
  near.resize(static_cast<size_t>(n_near));
  return {n_low, n_high};
}

// A sample says where the k smallest and largest end; the few entries beyond are left to be looked at.
void find_near(const float* x, int64_t n, int64_t k, Scratch& s) {
  constexpr int64_t kSample = 256;
  if (n >= 8 * kSample && k <= n / 16) {
    s.sample.clear();
    for (int64_t i = 0; i < kSample; ++i) s.sample.push_back(x[i * n / kSample]);
    std::sort(s.sample.begin(), s.sample.end());
    const double expected = static_cast<double>(k * kSample) / static_cast<double>(n);
    const auto at = static_cast<int64_t>(expected + 3 * std::sqrt(expected) + 2);  // three standard deviations more
    const auto [n_low, n_high] = keep_near(x, n, s.sample[at], s.sample[kSample - 1 - at], s.near);
    if (n_low >= k && n_high >= k) return;
  }
  s.near.resize(static_cast<size_t>(n));
  std::iota(s.near.begin(), s.near.end(), 0);
}

// Positions of the k smallest and k largest of x[0, n), ascending; ties to the lowest position.
template <class Index>
void pick(const float* x, int64_t n_all, int64_t k, Scratch& s, Index* picked) {
  find_near(x, n_all, k, s);
  const auto n = static_cast<int64_t>(s.near.size());
  s.values.clear();
  for (const int32_t i : s.near) s.values.push_back(x[i]);
  s.held = s.values;
  std::nth_element(s.held.begin(), s.held.begin() + (k - 1), s.held.end());
  const float low = s.held[static_cast<size_t>(k - 1)];
  std::nth_element(s.held.begin() + k, s.held.end() - k, s.held.end());
  const float high = s.held[static_cast<size_t>(n - k)];
  // Of those that are as small as the k-th, so many as are left; then the same of the largest, of what is left.
  int64_t low_left = k - std::ranges::count_if(s.values, [low](float value) { return value < low; });
  int64_t high_left = k - std::ranges::count_if(s.values, [high](float value) { return value > high; });
  int64_t n_picked = 0;
  for (int64_t i = 0; i < n && n_picked < 2 * k; ++i) {
    const float value = s.values[static_cast<size_t>(i)];
    bool taken = value < low || value > high;
    if (value == low && low_left > 0) {
      taken = true, --low_left;
    } else if (value == high && high_left > 0) {
      taken = true, --high_left;
    }
    if (taken) picked[n_picked++] = static_cast<Index>(s.near[static_cast<size_t>(i)]);
  }
  while (n_picked < 2 * k) picked[n_picked++] = 0;  // of numbers that are none, which the quantizer will refuse
}

// Of vectors first ... in rows one after the other.
template <class Index>
void pick_rows(const at::Tensor& vectors, int64_t first, int64_t k, Scratch& scratch, at::Tensor& index) {
  const int64_t len = vectors.size(-1), n_vectors = vectors.numel() / len;
  const float* x = vectors.const_data_ptr<float>();
  auto* picked = static_cast<Index*>(index.data_ptr()) + first * 2 * k;
  for (int64_t row = 0; row < n_vectors; ++row) pick(x + row * len, len, k, scratch, picked + row * 2 * k);
}

// Some heads or tokens at a time, in memory that is used again.
void pick_all(const at::Tensor& x, GroupAxis axis, int64_t k, at::Tensor& index) {
  constexpr int64_t kSomeNumbers = 1 << 19;
  const int64_t dim = axis == GroupAxis::tokens ? 0 : 1, n = x.size(dim), numbers = x.numel() / n;
  const int64_t some = std::clamp<int64_t>(kSomeNumbers / numbers, 1, n);
  const int64_t n_vectors = axis == GroupAxis::tokens ? x.size(2) : 1;  // of one head or token
  at::parallel_for(
      0, (n + some - 1) / some, std::max<int64_t>(1, (1 << 15) / (some * numbers)), [&](int64_t part, int64_t end) {
        Scratch scratch;
        for (; part < end; ++part) {
          const int64_t first = part * some;
          const auto piece = x.narrow(dim, first, std::min(some, n - first)).to(at::kFloat);
          const auto vectors = to_vectors(piece, axis).contiguous();
          index.scalar_type() == at::kByte ? pick_rows<uint8_t>(vectors, first * n_vectors, k, scratch, index)
                                           : pick_rows<uint16_t>(vectors, first * n_vectors, k, scratch, index);
        }
      });
}

// The same by operations that any device has: what is below the k-th and above the k-th from the end, and of their
// equals the first that there is room for, those of the lower side before those of the upper one.
at::Tensor pick_on_device(const at::Tensor& x, GroupAxis axis, int64_t k, at::ScalarType type) {
  const auto vectors = to_vectors(x.to(at::kFloat), axis);
  const int64_t len = vectors.size(-1);
  const auto low = std::get<0>(vectors.kthvalue(k, -1, true)),
             high = std::get<0>(vectors.kthvalue(len - k + 1, -1, true));
  const auto with_ties = [&](const at::Tensor& beyond, const at::Tensor& equal) {
    return beyond.logical_or(equal.logical_and(equal.cumsum(-1).le(k - beyond.sum(-1, true))));
  };
  const auto lower = with_ties(vectors.lt(low), vectors.eq(low));
  const auto upper = with_ties(vectors.gt(high), vectors.eq(high).logical_and(lower.logical_not()));
  const auto picked = lower.logical_or(upper);
  const auto position = at::arange(len, vectors.options().dtype(at::kLong)).expand(vectors.sizes());
  auto sizes = vectors.sizes().vec();
  sizes.back() = 2 * k + 1;  // the last for all that are not picked
  const auto place = picked.cumsum(-1).sub_(1).masked_fill_(picked.logical_not(), 2 * k);
  return at::zeros(sizes, position.options()).scatter_(-1, place, position).narrow(-1, 0, 2 * k).to(type).contiguous();
}

}  // namespace

int64_t n_outliers_per_side(double fraction, int64_t vector_len) {
  const double wanted = std::nearbyint(fraction * static_cast<double>(vector_len) / 2);
  return std::min(static_cast<int64_t>(wanted), vector_len / 2);
}

Outliers find_outliers(const at::Tensor& x, double fraction, GroupAxis axis) {
  const TimedPart timed(WorkPart::sparse);
  const bool along_tokens = axis == GroupAxis::tokens;
  const int64_t len = along_tokens ? x.size(1) : x.size(0) * x.size(2), k = n_outliers_per_side(fraction, len);
  Outliers result;
  result.axis = axis;
  if (k == 0) return result;
  KVC_CHECK(len <= 65536, "outliers: vectors of ", len, " entries, allowed: up to 65536 (16-bit index)");
  const auto type = len > 256 ? at::kUInt16 : at::kByte;
  if (!x.is_cpu()) {
    result.index = pick_on_device(x, axis, k, type);
    return result;
  }
  result.index = along_tokens ? at::empty({x.size(0), x.size(2), 2 * k}, type) : at::empty({x.size(1), 2 * k}, type);
  pick_all(x, axis, k, result.index);
  return result;
}

at::Tensor outlier_mask(const Outliers& outliers, int64_t n_heads, int64_t n_tokens, int64_t head_dim) {
  const TimedPart timed(WorkPart::sparse);
  const auto options = at::TensorOptions(at::kBool).device(outliers.index.device());
  const bool along_tokens = outliers.axis == GroupAxis::tokens;
  auto vectors = along_tokens ? at::zeros({n_heads, head_dim, n_tokens}, options)
                              : at::zeros({n_tokens, n_heads * head_dim}, options);
  vectors.scatter_(-1, long_index(outliers), true);
  return from_vectors(vectors, outliers.axis, n_heads);
}

namespace {

// Entries of heads first_head ... alone; a vector of `len` of them.
template <class Index>
void take(const Outliers& s, at::Tensor& left, int64_t first_head) {
  const int64_t n_heads = left.size(0), n_tokens = left.size(1), d = left.size(2), n = s.index.size(-1);
  const auto* index = static_cast<const Index*>(s.index.const_data_ptr());
  float *x = left.data_ptr<float>(), *values = s.values.data_ptr<float>();
  if (s.axis == GroupAxis::tokens) {
    for (int64_t channel = 0; channel < n_heads * d; ++channel) {
      float* of_channel = x + channel / d * n_tokens * d + channel % d;
      for (int64_t i = (first_head * d + channel) * n, end = i + n; i < end; ++i) {
        values[i] = std::exchange(of_channel[index[i] * d], 0.f);
      }
    }
    return;
  }
  for (int64_t t = 0; t < n_tokens; ++t) {
    const auto begin = index + t * n, end = begin + n;
    for (auto at = std::lower_bound(begin, end, first_head * d); at != end && *at < (first_head + n_heads) * d; ++at) {
      const int64_t j = *at - first_head * d;
      values[at - index] = std::exchange(x[(j / d * n_tokens + t) * d + j % d], 0.f);
    }
  }
}

}  // namespace

void take_values(Outliers& outliers, at::Tensor& left, int64_t first_head) {
  const TimedPart timed(WorkPart::sparse);
  if (!left.is_cpu()) {  // all heads at once
    outliers.values = to_vectors(left, outliers.axis).gather(-1, long_index(outliers));
    left.masked_fill_(outlier_mask(outliers, left.size(0), left.size(1), left.size(2)), 0);
    return;
  }
  if (!outliers.values.defined()) outliers.values = at::empty(outliers.index.sizes(), at::kFloat);
  outliers.index.scalar_type() == at::kByte ? take<uint8_t>(outliers, left, first_head)
                                            : take<uint16_t>(outliers, left, first_head);
}

void round_values(Outliers& outliers, Precision precision) {
  outliers.values = outliers.values.to(storage_type(precision));
  check_values(outliers.values.isfinite(), [] { return "outliers: a value is beyond fp16 (65504)"; });
}

void Outliers::add_to_(at::Tensor& x) const {
  const TimedPart timed(WorkPart::sparse);
  if (!index.defined()) return;
  const bool along_tokens = axis == GroupAxis::tokens;
  auto vectors = along_tokens ? at::zeros({x.size(0), x.size(2), x.size(1)}, x.options())
                              : at::zeros({x.size(1), x.size(0) * x.size(2)}, x.options());
  vectors.scatter_(-1, long_index(*this), values.to(at::kFloat));
  x.add_(from_vectors(vectors, axis, x.size(0)));
}

void Outliers::add_to(Footprint& bytes, CacheTensor tensor) const {
  bytes.add(tensor, ByteKind::sparse_values, values);
  if (!index_is_shared) bytes.add(tensor, ByteKind::sparse_index, index);
}

}  // namespace kvc
