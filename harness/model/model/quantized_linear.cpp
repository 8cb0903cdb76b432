#include "model/quantized_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr double kLeastMagnitude = 1e-5;
constexpr int kZero = 8;  // of codes in half bytes: 1 to 15 stand for -7 to 7

double top_code(int64_t bits) { return static_cast<double>((int64_t{1} << (bits - 1)) - 1); }

// x [..., n] -> [..., 1]
at::Tensor scale_of(const at::Tensor& x, int64_t bits) {
  return x.abs().amax(-1, true).clamp_min_(kLeastMagnitude).div_(top_code(bits));
}

// codes [N, K] -> [N, ceil(K/2)] bytes, the even column in the low half
at::Tensor packed(const at::Tensor& codes) {
  auto halves = codes.add(kZero).to(at::kByte);
  if (halves.size(1) % 2) halves = at::cat({halves, at::full({halves.size(0), 1}, kZero, halves.options())}, 1);
  const auto pairs = halves.view({halves.size(0), -1, 2});
  return pairs.select(2, 0).bitwise_or(pairs.select(2, 1).mul(16)).contiguous();
}

// [N, ceil(K/2)] bytes -> [N, K] floats
at::Tensor unpacked(const at::Tensor& bytes, int64_t n_columns) {
  const auto halves = at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, 2);
  return halves.view({bytes.size(0), -1}).narrow(1, 0, n_columns).to(at::kFloat).sub_(kZero);
}

// Of the runs that rows first ... first+n-1 lie in, their part.
void expand_block_rows(const Linear& w, int64_t first, int64_t n, float* out) {
  const int64_t k = w.n_columns;
  for (const auto& run : w.blocks) {
    const int64_t n_run = run.bytes.size(0), begin = std::max<int64_t>(first, 0), end = std::min(first + n, n_run);
    if (begin < end) {
      kernels::expand_blocks(run.type, run.bytes.const_data_ptr<uint8_t>() + begin * run.bytes.size(1),
                             (end - begin) * k, out + (begin - first) * k);
    }
    first -= n_run;
  }
}

// Codes of 8 bits times their scales, in fp32 and rounded once: in one pass, which matters on a device.
at::Tensor times_scale(const Linear& w, at::ScalarType type) {
  const int64_t n = w.weight.size(0), k = w.weight.size(1);
  const auto scale = w.scale.view({n, -1, 1});
  auto out = at::empty({n, scale.size(1), k / scale.size(1)}, w.scale.options().dtype(type));
  return at::mul_out(out, w.weight.view(out.sizes()), scale).view({n, k});
}

}  // namespace

Linear quantized(const Linear& w, int64_t bits, int64_t group_size) {
  KVC_CHECK(bits == 8 || (bits >= 2 && bits <= 4), "weights: bits ", bits, ", allowed: 8, 4, 3, 2");
  const int64_t n = w.weight.size(0), k = w.weight.size(1), group = group_size > 0 ? group_size : k;
  KVC_CHECK(k % group == 0, "weights: group_size ", group, " does not divide the ", k, " columns of a matrix");
  const auto groups = w.weight.to(at::kFloat).view({n, k / group, group});
  const auto scale = scale_of(groups, bits);  // [N, K/g, 1]
  const auto codes = groups.div(scale).round_().view({n, k});
  const auto held = bits == 8 ? codes.to(at::kChar) : packed(codes);
  return {held, w.bias, group == k ? scale.view({n}) : scale.view({n, k / group}), k, w.input_bits, {}};
}

Linear expanded(const Linear& w, at::ScalarType type) {
  if (!w.blocks.empty()) return {expanded_rows(w, 0, n_rows_of(w), type), w.bias, {}, 0, w.input_bits, {}};
  if (!w.scale.defined()) return w;
  const int64_t n = w.weight.size(0), k = n_columns_of(w);
  if (!w.weight.is_cpu() && w.weight.scalar_type() == at::kChar)
    return {times_scale(w, type), w.bias, {}, 0, w.input_bits, {}};
  auto codes = w.weight.scalar_type() == at::kByte ? unpacked(w.weight, k) : w.weight.to(at::kFloat);
  const auto scale = w.scale.view({n, -1, 1});
  auto floats = codes.view({n, scale.size(1), k / scale.size(1)}).mul_(scale).view({n, k});
  return {floats.to(type), w.bias, {}, 0, w.input_bits, {}};
}

at::Tensor expanded_rows(const Linear& w, int64_t first, int64_t n, at::ScalarType type) {
  constexpr int64_t kLeastValues = 1 << 17;  // that are worth a thread's while
  const int64_t k = w.n_columns;
  auto floats = at::empty({n, k}, at::kFloat);
  float* out = floats.mutable_data_ptr<float>();
  at::parallel_for(0, n, std::max<int64_t>(1, kLeastValues / k), [&](int64_t begin, int64_t end) {
    expand_block_rows(w, first + begin, end - begin, out + begin * k);
  });
  return floats.to(type);
}

void expand_rows(const Linear& w, int64_t first, int64_t n, float* out) {
  if (!w.blocks.empty()) return expand_block_rows(w, first, n, out);
  const int64_t k = n_columns_of(w), n_groups = w.scale.dim() == 2 ? w.scale.size(1) : 1, group = k / n_groups;
  const int64_t row_bytes = w.weight.size(1);
  const bool is_packed = w.weight.scalar_type() == at::kByte;
  const auto* bytes = static_cast<const uint8_t*>(w.weight.const_data_ptr()) + first * row_bytes;
  const float* scale = w.scale.const_data_ptr<float>() + first * n_groups;
  for (int64_t row = 0; row < n; ++row, bytes += row_bytes, scale += n_groups, out += k) {
    if (is_packed) {
      for (int64_t j = 0; j < k; ++j) out[j] = static_cast<float>((bytes[j / 2] >> (j % 2 * 4) & 15) - kZero);
    } else {
      for (int64_t j = 0; j < k; ++j) out[j] = static_cast<float>(static_cast<int8_t>(bytes[j]));
    }
    for (int64_t g = 0; g < n_groups; ++g) {
      for (int64_t j = g * group; j < (g + 1) * group; ++j) out[j] *= scale[g];
    }
  }
}

at::Tensor rounded_rows(const at::Tensor& x, int64_t bits) {
  const auto wide = x.to(at::kFloat);
  const auto scale = scale_of(wide, bits);
  return wide.div(scale).round_().mul_(scale).to(x.scalar_type());
}

}  // namespace kvc
