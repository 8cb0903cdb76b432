#include "matrix.h"

#include <ATen/ATen.h>
#include <kvc/quant/pack_bits.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvquant {
namespace {

constexpr int64_t kBlockTokens = 64;  // a step copies at most one block
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// fp32 as it comes back from storage.
at::Tensor rounded(const at::Tensor& x, kvc::Precision precision) {
  const auto held = x.to(kvc::storage_type(precision)).to(at::kFloat);
  KVC_CHECK(held.isfinite().all().item<bool>(), "kvquant: a range lies beyond fp16 (65504)");
  return held;
}

// The p-quantile of each column of sorted x [n, m], between two entries by line.
at::Tensor quantile_of(const at::Tensor& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size(0) - 1);
  const auto below = static_cast<int64_t>(std::floor(at));
  const auto above = std::min(below + 1, sorted.size(0) - 1);
  return sorted[below].lerp(sorted[above], at - std::floor(at));
}

// 16-bit numbers are held as int16, of which these are the bits.
at::Tensor narrow_int(const at::Tensor& x) { return x.to(at::kInt).to(at::kShort).contiguous(); }
at::Tensor wide_int(const at::Tensor& x) { return x.to(at::kInt).bitwise_and(0xffff).to(at::kLong); }

}  // namespace

at::Tensor outlier_mask(const at::Tensor& x, const at::Tensor& lower, const at::Tensor& upper, const Format& format) {
  if (!format.uniform) return x.gt(upper).logical_or(x.lt(lower));
  // A vector whose entries are all equal has none.
  return x.ge(upper).logical_or(x.le(lower)).logical_and(upper.gt(lower));
}

Range range_of_columns(const at::Tensor& x, const Format& format) {
  Range range;
  const auto sorted = std::get<0>(x.sort(0));
  const bool sparse = format.sparsity > 0;
  range.lower = sparse ? quantile_of(sorted, format.sparsity / 2) : at::full_like(sorted[0], -kInfinity);
  range.upper = sparse ? quantile_of(sorted, 1 - format.sparsity / 2) : at::full_like(sorted[0], kInfinity);
  at::Tensor smallest = sorted[0], largest = sorted[sorted.size(0) - 1];
  if (sparse && format.uniform) {
    const auto mask = outlier_mask(x, range.lower, range.upper, format);
    smallest = x.masked_fill(mask, kInfinity).amin(0), largest = x.masked_fill(mask, -kInfinity).amax(0);
    const auto none = smallest.gt(largest);  // every entry is an outlier
    smallest = at::where(none, range.lower, smallest), largest = at::where(none, range.lower, largest);
  } else if (sparse) {
    smallest = range.lower, largest = range.upper;
  }
  if (format.uniform) {
    range.zero = rounded(smallest, format.precision);
    range.scale = rounded((largest - smallest) / static_cast<double>((1 << format.bits) - 1), format.precision);
  } else {
    range.zero = rounded((largest + smallest) / 2, format.precision);
    range.scale = rounded((largest - smallest) / 2, format.precision);
  }
  return range;
}

at::Tensor centroids(const at::Tensor& z, int64_t bits) {
  constexpr int64_t kMaxIterations = 50;
  const int64_t n_levels = int64_t{1} << bits, n = z.numel();
  std::vector<double> levels(n_levels);
  for (int64_t i = 0; i < n_levels; ++i)
    levels[i] = (2.0 * static_cast<double>(i) + 1) / static_cast<double>(n_levels) - 1;
  if (n >= n_levels) {
    const auto sorted = std::get<0>(z.to(at::kDouble).flatten().sort()).contiguous();
    const double* x = sorted.const_data_ptr<double>();
    std::vector<double> sums(n + 1, 0);
    for (int64_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + x[i];
    for (int64_t i = 0; i < n_levels; ++i) levels[i] = x[(2 * i + 1) * n / (2 * n_levels)];
    for (int64_t iteration = 0; iteration < kMaxIterations; ++iteration) {
      int64_t first = 0;
      bool moved = false;
      for (int64_t i = 0; i < n_levels; ++i) {  // the cell of a level ends half way to the next
        const double end = i + 1 < n_levels ? (levels[i] + levels[i + 1]) / 2 : kInfinity;
        const int64_t last = std::upper_bound(x + first, x + n, end) - x;
        const double mean = last > first ? (sums[last] - sums[first]) / static_cast<double>(last - first) : levels[i];
        moved = moved || mean != levels[i];
        levels[i] = mean;
        first = last;
      }
      if (!moved) break;
    }
  }
  auto result = at::empty({n_levels}, at::kFloat);
  for (int64_t i = 0; i < n_levels; ++i) result.data_ptr<float>()[i] = static_cast<float>(levels[i]);
  return std::get<0>(result.sort());
}

namespace {

// The nearest level of each (x - zero) / scale; where the scale is 0, level of 0. -> u8
at::Tensor codes_of(const at::Tensor& x, const Range& range, const at::Tensor& levels, const Format& format) {
  const auto z = ((x - range.zero) / range.scale).nan_to_num(0, 3e38, -3e38);
  if (format.uniform) return z.round().clamp(0, (1 << format.bits) - 1).to(at::kByte);
  const auto middles = (levels.slice(0, 1) + levels.slice(0, 0, -1)) / 2;
  return at::bucketize(z.contiguous(), middles).to(at::kByte);
}

}  // namespace

void Matrix::push_back(const at::Tensor& x, const Range& range, const at::Tensor& levels, const Format& format) {
  auto mask = outlier_mask(x, range.lower, range.upper, format);
  // A vector without extent holds one value; what differs from it is an outlier, too.
  mask = mask.logical_or(range.scale.eq(0).logical_and(rounded(x, format.precision).ne(range.zero)));
  const auto values = x.masked_select(mask).to(kvc::storage_type(format.precision)).contiguous();
  KVC_CHECK(values.isfinite().all().item<bool>(), "kvquant: an outlier lies beyond fp16 (65504)");
  Block block{.codes = kvc::pack_bits(codes_of(x, range, levels, format), format.bits),
              .values = values,
              .index = narrow_int(mask.nonzero().select(1, 1)),
              .counts = narrow_int(mask.sum(1))};
  n_tokens_ += x.size(0), n_channels_ = x.size(1);
  if (blocks_.empty() || blocks_.back().codes.size(0) >= kBlockTokens) {
    blocks_.push_back(std::move(block));
    return;
  }
  Block& open = blocks_.back();
  open = {.codes = at::cat({open.codes, block.codes}),
          .values = at::cat({open.values, block.values}),
          .index = at::cat({open.index, block.index}),
          .counts = at::cat({open.counts, block.counts})};
}

at::Tensor Matrix::dequantize(const at::Tensor& zero, const at::Tensor& scale, const at::Tensor& levels,
                              const Format& format) const {
  std::vector<at::Tensor> parts;  // [t, m] each
  int64_t first = 0;
  for (const auto& block : blocks_) {
    const int64_t n = block.codes.size(0);
    const auto rows = [&](const at::Tensor& table) { return table.size(0) == 1 ? table : table.narrow(0, first, n); };
    const auto codes = kvc::unpack_bits(block.codes, format.bits, n_channels_);
    const auto z =
        format.uniform ? codes.to(at::kFloat) : levels.index_select(0, codes.flatten().to(at::kInt)).view_as(codes);
    auto x = z * rows(scale) + rows(zero);
    const auto token = at::arange(n, at::kLong).repeat_interleave(wide_int(block.counts));
    x.index_put_({token, wide_int(block.index)}, block.values.to(at::kFloat));
    parts.push_back(x);
    first += n;
  }
  return at::cat(parts);
}

int64_t Matrix::n_outliers() const {
  int64_t n = 0;
  for (const auto& block : blocks_) n += block.values.numel();
  return n;
}

void Matrix::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  for (const auto& block : blocks_) {
    bytes.add(tensor, kvc::ByteKind::codes, block.codes);
    bytes.add(tensor, kvc::ByteKind::sparse_values, block.values);
    bytes.add(tensor, kvc::ByteKind::sparse_index, block.index);
    bytes.add(tensor, kvc::ByteKind::sparse_index, block.counts);
  }
}

}  // namespace kvquant
