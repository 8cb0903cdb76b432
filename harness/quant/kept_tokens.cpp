#include "kvc/quant/kept_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace kvc {

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

}  // namespace kvc
