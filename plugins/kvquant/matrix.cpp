#include "matrix.h"

#include <ATen/ATen.h>
#include <kvc/quant/code_book.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/value_checks.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "codec.h"

namespace kvquant {
namespace {

// Storage of exactly a then b.
at::Tensor joined(const at::Tensor& a, const at::Tensor& b) {
  if (b.numel() == 0) return a;
  if (!a.is_cpu()) return at::cat({a, b});
  auto sizes = a.sizes().vec();
  sizes[0] += b.size(0);
  auto both = at::empty(sizes, a.options());
  auto* out = static_cast<char*>(both.data_ptr());
  if (a.numel() > 0) std::memcpy(out, a.const_data_ptr(), a.nbytes());
  std::memcpy(out + a.nbytes(), b.const_data_ptr(), b.nbytes());
  return both;
}

constexpr auto kBeyondFp16 = "kvquant: an outlier is beyond fp16 (65504)";
constexpr at::Tensor Matrix::Block::*kParts[] = {&Matrix::Block::codes,  &Matrix::Block::values, &Matrix::Block::index,
                                                 &Matrix::Block::counts, &Matrix::Block::zero,   &Matrix::Block::scale};

template <class T>
at::Tensor held(const std::vector<T>& values, at::ScalarType type) {
  auto result = at::empty({static_cast<int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), result.data_ptr<T>());
  return result;
}

// n floats in storage of their own.
at::Tensor stored(const float* x, int64_t n, kvc::Precision precision) {
  auto result = at::empty({n}, kvc::storage_type(precision));
  if (precision == kvc::Precision::real) {
    std::copy(x, x + n, result.data_ptr<at::Half>());
  } else {
    std::copy(x, x + n, result.data_ptr<float>());
  }
  return result;
}

// The outliers of one token, ascending.
class Outliers {
 public:
  Outliers(const Format& format, int64_t n_capped) : format_(format), n_capped_(n_capped) {}

  void find(const float* x, int64_t m, const Table& table, int64_t t) {
    channels.clear(), above_.clear(), below_.clear();
    for (int64_t j = 0; j < m; ++j) {
      const int64_t i = table.at(t, j);
      // A vector without extent holds one value; what differs from it is an outlier, too, and never capped.
      if (table.scale[i] == 0) {
        if (rounded(x[j], format_.precision) != table.zero[i]) channels.push_back(j);
      } else if (codec::is_outlier(x[j], table.lower[i], table.upper[i], format_.uniform)) {
        const float z = codec::normalized(x[j], table.zero[i], table.scale[i]);
        (x[j] >= table.upper[i] ? above_ : below_).push_back({std::abs(z), j});
      }
    }
    keep(above_), keep(below_);
    std::sort(channels.begin(), channels.end());
  }
  std::vector<int64_t> channels;

 private:
  struct Far {
    float z;
    int64_t channel;
  };
  void keep(std::vector<Far>& side) {
    auto end = side.end();
    if (n_capped_ > 0 && static_cast<int64_t>(side.size()) > n_capped_) {
      end = side.begin() + n_capped_;
      std::partial_sort(side.begin(), end, side.end(),
                        [](const Far& a, const Far& b) { return a.z > b.z || (a.z == b.z && a.channel < b.channel); });
    }
    for (auto far = side.begin(); far != end; ++far) channels.push_back(far->channel);
  }
  const Format& format_;
  int64_t n_capped_;
  std::vector<Far> above_, below_;
};

// The code of each entry of one token; where the scale is 0, that of 0.
void encode_row(const float* x, int64_t m, const Table& table, int64_t t, const std::vector<float>& middles,
                const Format& format, uint8_t* codes) {
  const auto n_middles = static_cast<int64_t>(middles.size());
  const auto last = static_cast<float>((1 << format.bits) - 1);
  for (int64_t j = 0; j < m; ++j) {
    const int64_t i = table.at(t, j);
    const float z = codec::normalized(x[j], table.zero[i], table.scale[i]);
    codes[j] = format.uniform ? static_cast<uint8_t>(std::clamp(std::nearbyint(z), 0.f, last))
                              : nearest_level(z, middles.data(), n_middles);
  }
}

}  // namespace

std::vector<float> values_of(const Levels& levels, const Format& format) {
  if (!format.uniform) return levels.decode;
  std::vector<float> integers(size_t{1} << format.bits);
  std::iota(integers.begin(), integers.end(), 0.f);
  return integers;
}

// Fills up the open block, then makes new ones.
void Matrix::push_back(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                       int64_t n_capped) {
  for (int64_t done = 0; done < x.size(0);) {
    const int64_t left = x.size(0) - done, n_open = blocks_.empty() ? 0 : blocks_.back().n_tokens() % kBlockTokens;
    int64_t n = std::min(left, kBlockTokens - n_open);
    if (n_parts_ > 0 && n == kBlockTokens) n = std::min(left / kBlockTokens * kBlockTokens, kMostTokens);
    const auto rows = [&](const at::Tensor& table) { return axis_ == Axis::tokens ? table.narrow(0, done, n) : table; };
    const Range part{rows(range.lower), rows(range.upper), rows(range.zero), rows(range.scale)};
    const auto some = x.narrow(0, done, n);
    push_rows(device_.is_cpu() ? encoded(some, part, levels, format, n_capped)
                               : encoded_on_device(some, part, levels, format, n_capped),
              x.size(1));
    done += n;
  }
}

// codes [n, m] u8
at::Tensor Matrix::packed(const at::Tensor& codes, const Format& format) const {
  const auto parts = codes.view({codes.size(0), std::max<int64_t>(1, n_parts_), -1}).transpose(0, 1).contiguous();
  return kvc::pack_bits(parts, format.bits);
}

Matrix::Block Matrix::encoded(const at::Tensor& x, const Range& range, const Levels& levels, const Format& format,
                              int64_t n_capped) const {
  const int64_t n = x.size(0), m = x.size(1);
  const Table table(range, axis_);
  const auto middles = middles_of(levels.encode);
  auto codes = at::empty({n, m}, at::kByte);
  std::vector<float> values;
  std::vector<int16_t> index, counts;
  Outliers outliers(format, n_capped);
  for (int64_t t = 0; t < n; ++t) {
    const float* row = x.const_data_ptr<float>() + t * m;
    encode_row(row, m, table, t, middles, format, codes.data_ptr<uint8_t>() + t * m);
    outliers.find(row, m, table, t);
    for (const int64_t j : outliers.channels) {
      codes.data_ptr<uint8_t>()[t * m + j] = 0;
      values.push_back(row[j]), index.push_back(static_cast<int16_t>(j));
      KVC_CHECK(std::isfinite(rounded(row[j], format.precision)), kBeyondFp16);
    }
    counts.push_back(static_cast<int16_t>(outliers.channels.size()));
  }
  const auto of_tokens = [&](const at::Tensor& x) {
    return axis_ == Axis::tokens ? stored(x.const_data_ptr<float>(), n, format.precision) : at::Tensor();
  };
  return {.codes = packed(codes, format),
          .values = stored(values.data(), static_cast<int64_t>(values.size()), format.precision),
          .index = held(index, at::kShort),
          .counts = held(counts, at::kShort),
          .zero = of_tokens(range.zero),
          .scale = of_tokens(range.scale)};
}

namespace {

// As Outliers::find: [n, m] bool.
at::Tensor outliers_on_device(const at::Tensor& x, const at::Tensor& z, const Range& range, const Format& format,
                              int64_t n_capped) {
  const auto held = x.to(kvc::storage_type(format.precision)).to(at::kFloat);
  const auto flat = range.scale.eq(0), at_upper = x.ge(range.upper);
  auto beyond = format.uniform ? at_upper.logical_or(x.le(range.lower)).logical_and_(range.upper.gt(range.lower))
                               : x.gt(range.upper).logical_or_(x.lt(range.lower));
  beyond = beyond.logical_and(flat.logical_not());  // a vector without extent takes no part in what is capped
  if (n_capped > 0) {
    const auto furthest = [&](const at::Tensor& side) {
      const auto order = std::get<1>(at::where(side, z.abs(), -1).sort(/*stable=*/true, 1, /*descending=*/true));
      const auto near =
          order.narrow(1, std::min(n_capped, order.size(1)), std::max<int64_t>(0, order.size(1) - n_capped));
      return side.scatter(1, near, false);
    };
    beyond = furthest(beyond.logical_and(at_upper)).logical_or_(furthest(beyond.logical_and(at_upper.logical_not())));
  }
  return beyond.logical_or(flat.logical_and(held.ne(range.zero)));
}

}  // namespace

// The same by operations that any device has. How many outliers there are is asked of it once.
Matrix::Block Matrix::encoded_on_device(const at::Tensor& x, const Range& given, const Levels& levels,
                                        const Format& format, int64_t n_capped) const {
  constexpr double kHuge = 3e38f;  // codec::normalized
  const auto type = kvc::storage_type(format.precision);
  const bool of_tokens = axis_ == Axis::tokens;
  const auto each = [&](const at::Tensor& table) { return of_tokens ? table.unsqueeze(1) : table; };
  const Range range{each(given.lower), each(given.upper), each(given.zero), each(given.scale)};
  const auto z = x.sub(range.zero).div_(range.scale).nan_to_num_(0, kHuge, -kHuge).clamp_(-kHuge, kHuge);
  const auto& level = levels.encode_there;
  const auto codes =
      format.uniform
          ? z.round().clamp_(0, static_cast<double>((1 << format.bits) - 1))
          : at::bucketize(z, (level.narrow(0, 1, level.numel() - 1) + level.narrow(0, 0, level.numel() - 1)).div_(2));
  const auto outliers = outliers_on_device(x, z, range, format, n_capped);
  const auto places = outliers.flatten().nonzero().squeeze(1);
  const auto values = x.flatten().index_select(0, places).to(type);
  kvc::check_values(values.isfinite(), [] { return kBeyondFp16; });
  const auto stored = [&](const at::Tensor& table) { return of_tokens ? table.to(type, false, true) : at::Tensor(); };
  return {.codes = packed(codes.to(at::kByte).masked_fill_(outliers, 0), format),
          .values = values,
          .index = places.remainder(x.size(1)).to(at::kShort),
          .counts = outliers.sum(1).to(at::kShort),
          .zero = stored(given.zero),
          .scale = stored(given.scale)};
}

// Behind what the open block holds, or as a block of its own.
void Matrix::push_rows(Block block, int64_t n_channels) {
  n_tokens_ += block.n_tokens(), n_channels_ = n_channels;
  if (blocks_.empty() || blocks_.back().n_tokens() % kBlockTokens == 0) {
    blocks_.push_back(std::move(block));
    return;
  }
  Block& open = blocks_.back();
  open.codes = at::cat({open.codes, block.codes}, 1);
  for (const auto part : kParts) {
    if (part != &Block::codes && (open.*part).defined()) open.*part = joined(open.*part, block.*part);
  }
}

// The same by operations that any device has.
at::Tensor Matrix::decoded_on_device(const Block& block, const Range& channels, const Levels& levels,
                                     const Format& format, int64_t n_heads) const {
  const int64_t n = block.n_tokens(), n_parts = block.codes.size(0);
  const bool of_tokens = axis_ == Axis::tokens;
  const auto codes = kvc::unpack_bits(block.codes, format.bits, n_channels_ / n_parts);
  const auto level = format.uniform
                         ? codes.to(at::kFloat)
                         : levels.decode_there.index_select(0, codes.to(at::kLong).flatten()).view(codes.sizes());
  auto rows = level.transpose(0, 1).flatten(1);  // [n, m]
  rows = of_tokens ? block.zero.to(at::kFloat).unsqueeze(1) + block.scale.to(at::kFloat).unsqueeze(1) * rows
                   : channels.zero + channels.scale * rows;
  const auto unsigned_16 = [](const at::Tensor& x) { return x.to(at::kLong).bitwise_and_(0xffff); };
  const auto token = at::arange(n, at::TensorOptions(at::kLong).device(device_))
                         .repeat_interleave(unsigned_16(block.counts), 0, block.values.numel());
  rows.view(-1).index_put_({token * n_channels_ + unsigned_16(block.index)}, block.values.to(at::kFloat));
  return rows.view({n, n_heads, -1}).transpose(0, 1).contiguous();
}

at::Tensor Matrix::decoded(const Block& block, const Range& channels, const Levels& levels, const Format& format,
                           int64_t n_heads) const {
  if (!device_.is_cpu()) return decoded_on_device(block, channels, levels, format, n_heads);
  const int64_t n = block.n_tokens(), head_dim = n_channels_ / n_heads, n_parts = block.codes.size(0);
  const auto level = values_of(levels, format);
  const kvc::CodeBook book{level.data(), format.bits};
  const bool of_tokens = axis_ == Axis::tokens;
  const auto scale = of_tokens ? block.scale.to(at::kFloat) : channels.scale;
  const auto zero = of_tokens ? block.zero.to(at::kFloat) : channels.zero;
  std::vector<at::Tensor> heads;
  for (int64_t part = 0, width = n_channels_ / n_parts; part < n_parts; ++part) {
    const auto of_part = [&](const at::Tensor& x) { return of_tokens ? x : x.narrow(0, part * width, width); };
    heads.push_back(kvc::decode_heads(block.codes[part], n_heads / n_parts, head_dim, book, of_part(scale),
                                      of_part(zero), of_tokens ? kvc::BookScale::rows : kvc::BookScale::channels));
  }
  const auto rows = n_parts == 1 ? heads.front() : at::cat(heads, 0);
  float* out = rows.data_ptr<float>();
  const auto wide = block.values.to(at::kFloat);
  const float* values = wide.const_data_ptr<float>();
  for (int64_t t = 0, outlier = 0; t < n; ++t) {
    const auto count = static_cast<uint16_t>(block.counts.const_data_ptr<int16_t>()[t]);
    for (const int64_t end = outlier + count; outlier < end; ++outlier) {
      const auto j = static_cast<uint16_t>(block.index.const_data_ptr<int16_t>()[outlier]);
      out[(j / head_dim * n + t) * head_dim + j % head_dim] = values[outlier];
    }
  }
  return rows;
}

at::Tensor Matrix::dequantize(const Range& channels, const Levels& levels, const Format& format,
                              int64_t n_heads) const {
  std::vector<at::Tensor> tiles;
  for_each_tile(channels, levels, format, n_heads, [&](const at::Tensor& rows, int64_t) { tiles.push_back(rows); });
  return at::cat(tiles, 1);
}

int64_t Matrix::n_outliers() const {
  int64_t n = 0;
  for (const auto& block : blocks_) n += block.values.numel();
  return n;
}

void Matrix::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  for (const auto& block : blocks_) {
    bytes.add(tensor, kvc::ByteKind::codes, block.codes);
    bytes.add(tensor, kvc::ByteKind::zeros, block.zero);
    bytes.add(tensor, kvc::ByteKind::scales, block.scale);
    bytes.add(tensor, kvc::ByteKind::sparse_values, block.values);
    bytes.add(tensor, kvc::ByteKind::sparse_index, block.index);
    bytes.add(tensor, kvc::ByteKind::sparse_index, block.counts);
  }
}

}  // namespace kvquant
