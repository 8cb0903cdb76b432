#include "cache.h"

#include <ATen/ATen.h>
#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/rope.h>

#include <algorithm>

#include "products.h"

namespace kvquant {
namespace {

// [H, T, D] -> [T, H*D]
at::Tensor merged(const at::Tensor& x) {
  if (x.size(1) == 1) return x.reshape({1, -1});
  return x.transpose(0, 1).flatten(1).contiguous();
}

Levels levels_of(const at::Tensor& held) {
  if (!held.defined()) return {};
  const auto wide = held.to(at::kFloat);
  if (!wide.is_cpu()) return {{}, {}, wide, wide};
  const std::vector<float> levels(wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel());
  return {levels, levels};
}

// Loops over codes rotate all channels, or none.
bool rotates_all(const kvc::LayerInfo& info) {
  const auto n = static_cast<int64_t>(info.rope_frequencies.size());
  return n == 0 || 2 * n == info.head_dim;
}

}  // namespace

Cache::Cache(const kvc::LayerInfo& info, const CacheFormat& format, const LayerTables* tables)
    : PartsCache(info),
      format_(format),
      calibrated_(tables),
      type_(kvc::storage_type(format.matrix.precision)),
      has_products_(info.device.is_cpu() && has_products(format.matrix, info.head_dim) && rotates_all(info)),
      k_(Axis::channels, has_products_ ? info.n_kv_heads : 0, info.device),
      v_(Axis::tokens, has_products_ ? info.n_kv_heads : 0, info.device) {}

void Cache::append(const kvc::NewTokens& tokens) {
  check_new_tokens(tokens);
  const int64_t n = tokens.k.size(1), n_first = std::clamp<int64_t>(format_.first_tokens - length(), 0, n);
  if (n_first > 0) {
    k_first_.push_back(tokens.k.narrow(1, 0, n_first));
    v_first_.push_back(tokens.v.narrow(1, 0, n_first));
  }
  if (n_first == n) return;
  const auto k = tokens.k.narrow(1, n_first, n - n_first), v = tokens.v.narrow(1, n_first, n - n_first);
  if (calibrated_ || k_.n_tokens() > 0) return encode(k, v);
  k_waiting_.push_back(k), v_waiting_.push_back(v);
  if (const int64_t n_waiting = k_waiting_.n_tokens(); n_waiting >= format_.calibration_tokens) {
    const auto k_all = k_waiting_.pop_front(n_waiting), v_all = v_waiting_.pop_front(n_waiting);
    encode(k_all, v_all);
  }
}

// k, v [H, T, D]: the tokens behind those that are encoded
void Cache::encode(const at::Tensor& k, const at::Tensor& v) {
  const auto& format = format_.matrix;
  const int64_t first = k_first_.n_tokens() + k_.n_tokens();
  const auto keys = merged(kvc::turned(k, info().first_position + first, info().rope_frequencies, -1));
  const auto values = merged(v).to(at::kFloat);
  const auto v_range = range_of_rows(values, format);
  Range k_range;
  if (!calibrated_ && k_.n_tokens() == 0) {
    k_range = range_of_rows(keys.t().contiguous(), format);
    calibrate(keys, values, k_range, v_range);
  }
  LayerTables own;
  const auto& by = tables(own);
  const auto range = k_range.zero.defined() ? k_range : calibrated_ ? by.keys : widened(by.keys, format);
  k_.push_back(keys, range, by.k_levels, format, format_.n_capped);
  v_.push_back(values, v_range, by.v_levels, format);
}

// The sequence's own tables, from its first tokens.
void Cache::calibrate(const at::Tensor& k, const at::Tensor& v, const Range& k_range, const Range& v_range) {
  const auto& format = format_.matrix;
  const auto stored = [&](const at::Tensor& x) { return x.to(info().device, type_, false, true); };
  k_zero_ = stored(k_range.zero), k_scale_ = stored(k_range.scale);
  if (format.uniform) return;
  const auto levels = [&](const Normalized& x) { return stored(at::tensor(centroids(x.z, format.bits))); };
  k_levels_ = levels(normalized_inside(k, k_range, Axis::channels, format));
  v_levels_ = levels(normalized_inside(v, v_range, Axis::tokens, format));
}

// The calibrated tables, or the sequence's own, made in `own` (without thresholds).
const LayerTables& Cache::tables(LayerTables& own) const {
  if (calibrated_) return *calibrated_;
  if (k_zero_.defined()) {
    own = {{{}, {}, k_zero_.to(at::kFloat), k_scale_.to(at::kFloat)}, levels_of(k_levels_), levels_of(v_levels_)};
  }
  return own;
}

// Where codes have no loop, they become floats a block of tokens at a time, and keys are rotated in place.
void Cache::read_k(kvc::CompressedAttention& attention) const {
  const int64_t n_first = k_first_.n_tokens(), n_heads = info().n_kv_heads;
  LayerTables own;
  const auto& by = tables(own);
  attention.score(k_first_, 0);
  if (has_products_) {
    score(attention, k_, by.keys, by.k_levels, format_.matrix, info().rope_frequencies, n_first,
          info().first_position + n_first);
  } else {
    k_.for_each_tile(by.keys, by.k_levels, format_.matrix, n_heads, [&](const at::Tensor& rows, int64_t first) {
      kvc::turn(rows, info().first_position + n_first + first, info().rope_frequencies);
      attention.score(rows, n_first + first);
      attention.run();
    });
  }
  attention.score(k_waiting_, n_first + k_.n_tokens());
}

void Cache::read_v(kvc::CompressedAttention& attention) const {
  const int64_t n_first = v_first_.n_tokens(), n_heads = info().n_kv_heads;
  LayerTables own;
  const auto& by = tables(own);
  attention.accumulate_v(v_first_, 0);
  if (has_products_) {
    accumulate_v(attention, v_, by.v_levels, format_.matrix, n_heads, info().head_dim, n_first);
  } else {
    v_.for_each_tile({}, by.v_levels, format_.matrix, n_heads, [&](const at::Tensor& rows, int64_t first) {
      attention.accumulate_v(rows, n_first + first);
      attention.run();
    });
  }
  attention.accumulate_v(v_waiting_, n_first + v_.n_tokens());
}

kvc::KeyValue Cache::dequantize() const {
  std::vector<at::Tensor> k, v;  // each [H_kv, t, D]
  if (k_first_.n_tokens() > 0) k.push_back(k_first_.all()), v.push_back(v_first_.all());
  if (k_.n_tokens() > 0) {
    LayerTables own;
    const auto& by = tables(own);
    const auto keys = k_.dequantize(by.keys, by.k_levels, format_.matrix, info().n_kv_heads);
    k.push_back(kvc::turned(keys, info().first_position + k_first_.n_tokens(), info().rope_frequencies, 1));
    v.push_back(v_.dequantize({}, by.v_levels, format_.matrix, info().n_kv_heads));
  }
  if (k_waiting_.n_tokens() > 0) k.push_back(k_waiting_.all()), v.push_back(v_waiting_.all());
  return {at::cat(k, 1), at::cat(v, 1)};
}

kvc::Footprint Cache::footprint() const {
  using kvc::ByteKind, kvc::CacheTensor;
  kvc::Footprint bytes;
  k_first_.add_to(bytes, CacheTensor::k), k_waiting_.add_to(bytes, CacheTensor::k);
  v_first_.add_to(bytes, CacheTensor::v), v_waiting_.add_to(bytes, CacheTensor::v);
  k_.add_to(bytes, CacheTensor::k), v_.add_to(bytes, CacheTensor::v);
  bytes.add(CacheTensor::k, ByteKind::zeros, k_zero_), bytes.add(CacheTensor::k, ByteKind::scales, k_scale_);
  bytes.add(CacheTensor::k, ByteKind::codebook, k_levels_), bytes.add(CacheTensor::v, ByteKind::codebook, v_levels_);
  return bytes;
}

}  // namespace kvquant
