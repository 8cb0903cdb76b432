#include "kvc/quant/kept_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace kvc {

at::Tensor keep_rows(const at::Tensor& x, const at::Tensor& index, int64_t n_more) {
  const int64_t n_heads = x.size(0), n = x.size(1), n_kept = index.size(1);
  auto kept = at::empty({n_heads, n_kept + n_more, x.size(2)}, x.options());
  if (!x.is_cpu()) {
    const auto rows = index.unsqueeze(2).expand({n_heads, n_kept, x.size(2)});
    kept.narrow(1, 0, n_kept).copy_(x.gather(1, rows));
    return kept;
  }
  keep_rows_into(x, index, kept);
  return kept;
}

void keep_rows_into(const at::Tensor& x, const at::Tensor& index, at::Tensor& rows) {
  const int64_t n = x.size(1), n_kept = index.size(1), n_all = rows.size(1), row = x.size(2) * x.element_size();
  const auto* in = static_cast<const char*>(x.const_data_ptr());
  auto* out = static_cast<char*>(rows.data_ptr());
  for (int64_t h = 0; h < x.size(0); ++h) {
    const auto* at = index.const_data_ptr<int64_t>() + h * n_kept;
    for (int64_t i = 0, end = 0; i < n_kept; i = end) {  // runs of neighbours are moved at once
      for (end = i + 1; end < n_kept && at[end] == at[end - 1] + 1;) ++end;
      const auto *from = in + (h * n + at[i]) * row, *to = out + (h * n_all + i) * row;
      if (from != to) std::memmove(out + (h * n_all + i) * row, from, static_cast<size_t>((end - i) * row));
    }
  }
}

namespace {

// The same by operations that any device has.
at::Tensor without_the_least_on_device(const at::Tensor& scores, int64_t end) {
  const auto columns = at::arange(scores.size(1), scores.options().dtype(at::kLong));
  const auto ranked = scores.narrow(1, 0, end), lowest = ranked.eq(ranked.amin(1, true));
  const auto least = at::where(lowest, columns.narrow(0, 0, end), 0).amax(1, true);
  const auto kept = columns.narrow(0, 0, scores.size(1) - 1);
  return kept + kept.ge(least);
}

// All columns of scores [H, n] up to `end` but each row's lowest, of equal ones the newest, and those behind.
at::Tensor without_the_least(const at::Tensor& scores, int64_t end) {
  if (!scores.is_cpu()) return without_the_least_on_device(scores, end);
  const int64_t n = scores.size(1);
  auto kept = at::empty({scores.size(0), n - 1}, at::kLong);
  auto* to = kept.data_ptr<int64_t>();
  for (int64_t h = 0; h < scores.size(0); ++h) {
    const float* row = scores.const_data_ptr<float>() + h * n;
    int64_t least = 0;
    for (int64_t i = 1; i < end; ++i) least = row[i] <= row[least] ? i : least;
    for (int64_t i = 0; i < n; ++i) {
      if (i != least) *to++ = i;
    }
  }
  return kept;
}

}  // namespace

at::Tensor heaviest_and_recent(const at::Tensor& scores, int64_t heavy, int64_t recent) {
  const int64_t n_heads = scores.size(0), n = scores.size(1);
  recent = std::min(n, recent);
  heavy = std::min(n - recent, heavy);
  if (n - recent - heavy == 1) return without_the_least(scores.to(at::kFloat).contiguous(), n - recent);
  const auto order = std::get<1>(scores.narrow(1, 0, n - recent).sort(/*stable=*/true, 1, /*descending=*/true));
  const auto heaviest = std::get<0>(order.narrow(1, 0, heavy).sort(1));
  return at::cat({heaviest, at::arange(n - recent, n, heaviest.options()).expand({n_heads, recent})}, 1).contiguous();
}

}  // namespace kvc
