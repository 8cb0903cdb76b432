#include "kvc/quant/outliers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "kvc/part_timer.h"
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

// Positions of the k smallest and k largest of x[0, n), ascending; ties to the lowest position. `held`: [n] of scratch.
template <class Index>
void pick(const float* x, int64_t n, int64_t k, std::vector<float>& held, Index* picked) {
  held.assign(x, x + n);
  std::nth_element(held.begin(), held.begin() + (k - 1), held.end());
  const float low = held[static_cast<size_t>(k - 1)];
  std::nth_element(held.begin() + k, held.end() - k, held.end());
  const float high = held[static_cast<size_t>(n - k)];
  // Of those that are as small as the k-th, so many as are left; then the same of the largest, of what is left.
  int64_t low_left = k - std::count_if(x, x + n, [low](float value) { return value < low; });
  int64_t high_left = k - std::count_if(x, x + n, [high](float value) { return value > high; });
  int64_t n_picked = 0;
  for (int64_t i = 0; i < n && n_picked < 2 * k; ++i) {
    bool taken = x[i] < low || x[i] > high;
    if (x[i] == low && low_left > 0) {
      taken = true, --low_left;
    } else if (x[i] == high && high_left > 0) {
      taken = true, --high_left;
    }
    if (taken) picked[n_picked++] = static_cast<Index>(i);
  }
  while (n_picked < 2 * k) picked[n_picked++] = 0;  // of numbers that are none, which the quantizer will refuse
}

template <class Index>
void pick_all(const at::Tensor& vectors, int64_t k, at::Tensor& index) {
  const int64_t len = vectors.size(-1), n_vectors = vectors.numel() / len;
  const float* x = vectors.const_data_ptr<float>();
  auto* picked = static_cast<Index*>(index.data_ptr());
  at::parallel_for(0, n_vectors, std::max<int64_t>(1, (1 << 15) / len), [&](int64_t begin, int64_t end) {
    std::vector<float> held;
    for (int64_t vector = begin; vector < end; ++vector) {
      pick(x + vector * len, len, k, held, picked + vector * 2 * k);
    }
  });
}

}  // namespace

int64_t n_outliers_per_side(double fraction, int64_t vector_len) {
  const double wanted = std::nearbyint(fraction * static_cast<double>(vector_len) / 2);
  return std::min(static_cast<int64_t>(wanted), vector_len / 2);
}

Outliers find_outliers(const at::Tensor& x, double fraction, GroupAxis axis) {
  const TimedPart timed(WorkPart::sparse);
  const auto vectors = to_vectors(x.cpu(), axis);
  const int64_t len = vectors.size(-1), k = n_outliers_per_side(fraction, len);
  Outliers result;
  result.axis = axis;
  if (k == 0) return result;
  KVC_CHECK(len <= 65536, "outliers: vectors of ", len, " entries, allowed: up to 65536 (16-bit index)");
  auto sizes = vectors.sizes().vec();
  sizes.back() = 2 * k;
  const bool wide = len > 256;
  auto index = at::empty(sizes, wide ? at::kUInt16 : at::kByte);
  wide ? pick_all<uint16_t>(vectors, k, index) : pick_all<uint8_t>(vectors, k, index);
  result.index = index.to(x.device());
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

void set_values(Outliers& outliers, const at::Tensor& difference, Precision precision) {
  const TimedPart timed(WorkPart::sparse);
  const auto values = to_vectors(difference, outliers.axis).gather(-1, long_index(outliers));
  outliers.values = values.to(storage_type(precision));
  KVC_CHECK(outliers.values.isfinite().all().item<bool>(), "outliers: a value lies beyond fp16 (65504)");
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
