#include "kvc/quant/outliers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvc/part_timer.h"

namespace kvc {
namespace {

// [H, T, D] as one vector a row: axis tokens [H, D, T], axis channels [T, H*D]
at::Tensor to_vectors(const at::Tensor& x, GroupAxis axis) {
  if (axis == GroupAxis::tokens) return x.transpose(1, 2).contiguous();
  return x.transpose(0, 1).reshape({x.size(1), x.size(0) * x.size(2)});
}

at::Tensor from_vectors(const at::Tensor& vectors, GroupAxis axis, int64_t n_heads) {
  if (axis == GroupAxis::tokens) return vectors.transpose(1, 2);
  return vectors.view({vectors.size(0), n_heads, -1}).transpose(0, 1);
}

at::Tensor long_index(const Outliers& s) { return s.index.to(at::kLong); }

// Positions of the k smallest and k largest of x[0, n), ascending; ties to the lowest position.
void pick(const float* x, int64_t n, int64_t k, std::vector<int64_t>& order) {
  order.resize(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto smaller = [x](int64_t a, int64_t b) { return x[a] < x[b] || (x[a] == x[b] && a < b); };
  const auto larger = [x](int64_t a, int64_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); };
  std::nth_element(order.begin(), order.begin() + k, order.end(), smaller);
  std::nth_element(order.begin() + k, order.begin() + 2 * k - 1, order.end(), larger);
  order.resize(static_cast<size_t>(2 * k));
  std::sort(order.begin(), order.end());
}

}  // namespace

int64_t n_outliers_per_side(double fraction, int64_t vector_len) {
  const double wanted = std::nearbyint(fraction * static_cast<double>(vector_len) / 2);
  return std::min(static_cast<int64_t>(wanted), vector_len / 2);
}

Outliers find_outliers(const at::Tensor& x, double fraction, GroupAxis axis) {
  const TimedPart timed(WorkPart::sparse);
  const auto vectors = to_vectors(x.cpu(), axis);
  const int64_t len = vectors.size(-1), n_vectors = vectors.numel() / len, k = n_outliers_per_side(fraction, len);
  Outliers result;
  result.axis = axis;
  if (k == 0) return result;
  KVC_CHECK(len <= 65536, "outliers: vectors of ", len, " entries, allowed: up to 65536 (16-bit index)");
  auto sizes = vectors.sizes().vec();
  sizes.back() = 2 * k;
  const bool wide = len > 256;
  auto index = at::empty(sizes, wide ? at::kUInt16 : at::kByte);
  std::vector<int64_t> picked;
  for (int64_t vector = 0; vector < n_vectors; ++vector) {
    pick(vectors.const_data_ptr<float>() + vector * len, len, k, picked);
    for (int64_t e = 0; e < 2 * k; ++e) {
      if (wide) {
        index.data_ptr<uint16_t>()[vector * 2 * k + e] = static_cast<uint16_t>(picked[e]);
      } else {
        index.data_ptr<uint8_t>()[vector * 2 * k + e] = static_cast<uint8_t>(picked[e]);
      }
    }
  }
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
