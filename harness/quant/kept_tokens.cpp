#include "kvc/quant/kept_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace kvc {
namespace {

// x as `type`, in memory of its own order; throws where the narrower type cannot hold a value.
at::Tensor narrowed(const at::Tensor& x, at::ScalarType type) {
  const auto y = x.to(type).contiguous();
  KVC_CHECK(type != at::kHalf || y.isfinite().all().item<bool>(), "a value lies beyond fp16 (65504)");
  return y;
}

}  // namespace

at::Tensor keep_rows(const at::Tensor& x, const at::Tensor& index, int64_t n_more) {
  const int64_t n_heads = x.size(0), n = x.size(1), n_kept = index.size(1);
  auto kept = at::empty({n_heads, n_kept + n_more, x.size(2)}, x.options());
  if (!x.is_cpu()) {
    const auto rows = index.to(x.device()).unsqueeze(2).expand({n_heads, n_kept, x.size(2)});
    kept.narrow(1, 0, n_kept).copy_(x.gather(1, rows));
    return kept;
  }
  const int64_t row = x.size(2) * x.element_size();
  const auto* in = static_cast<const char*>(x.const_data_ptr());
  auto* out = static_cast<char*>(kept.data_ptr());
  for (int64_t h = 0; h < n_heads; ++h) {
    const auto* at = index.const_data_ptr<int64_t>() + h * n_kept;
    for (int64_t i = 0, end = 0; i < n_kept; i = end) {  // runs of neighbours are copied at once
      for (end = i + 1; end < n_kept && at[end] == at[end - 1] + 1;) ++end;
      std::memcpy(out + (h * (n_kept + n_more) + i) * row, in + (h * n + at[i]) * row,
                  static_cast<size_t>((end - i) * row));
    }
  }
  return kept;
}

at::Tensor heaviest_and_recent(const at::Tensor& scores, int64_t heavy, int64_t recent) {
  const int64_t n_heads = scores.size(0), n = scores.size(1);
  const auto cpu = scores.cpu();
  recent = std::min(n, recent);
  heavy = std::min(n - recent, heavy);
  const auto order = std::get<1>(cpu.narrow(1, 0, n - recent).sort(/*stable=*/true, 1, /*descending=*/true));
  const auto heaviest = std::get<0>(order.narrow(1, 0, heavy).sort(1));
  return at::cat({heaviest, at::arange(n - recent, n, at::kLong).expand({n_heads, recent})}, 1).contiguous();
}

void KeptTokens::keep_and_push(const at::Tensor& index, const at::Tensor& k, const at::Tensor& v,
                               int64_t first_position) {
  const int64_t n_kept = index.size(1), n_new = k.size(1);
  const auto positions = at::arange(first_position, first_position + n_new, positions_.options())
                             .view({1, n_new, 1})
                             .expand({k.size(0), n_new, 1});
  const auto join = [&](at::Tensor& held, const at::Tensor& added) {
    held = keep_rows(held, index, n_new);
    held.narrow(1, n_kept, n_new).copy_(added);
  };
  join(k_, narrowed(k, type_));
  join(v_, narrowed(v, type_));
  join(positions_, positions);
}

void KeptTokens::start(const at::Tensor& k, const at::Tensor& v, const at::Tensor& index) {
  k_ = keep_rows(narrowed(k, type_), index);
  v_ = keep_rows(narrowed(v, type_), index);
  positions_ = index.unsqueeze(2).to(k.device(), at::kInt);
}

at::Tensor KeptTokens::positions() const { return positions_.squeeze(2).to(at::kLong); }

KeyValue KeptTokens::dequantize() const { return {k_.to(at::kFloat), v_.to(at::kFloat)}; }

void KeptTokens::add_to(Footprint& bytes) const {
  bytes.add(CacheTensor::k, ByteKind::recent, k_);
  bytes.add(CacheTensor::v, ByteKind::recent, v_);
  bytes.add(CacheTensor::shared, ByteKind::index, positions_);
}

std::vector<int64_t> KeptTokens::n_hidden(int64_t length, int64_t sliding_window) const {
  std::vector<int64_t> hidden(static_cast<size_t>(k_.size(0)), 0);
  if (sliding_window == 0 || length <= sliding_window) return hidden;
  const auto counts = positions_.lt(length - sliding_window).flatten(1).sum(1).cpu();
  for (size_t h = 0; h < hidden.size(); ++h) hidden[h] = counts.const_data_ptr<int64_t>()[h];
  return hidden;
}

}  // namespace kvc
