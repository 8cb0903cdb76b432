#include "kvc/quant/group_quant.h"

#include <ATen/ATen.h>

#include "kvc/part_timer.h"
#include "kvc/quant/pack_bits.h"
#include "kvc/value_checks.h"
#include "pieces.h"
#include "tiles.h"

namespace kvc {
namespace {

// x as rows whose groups lie contiguous. [H, T, D] -> axis channels: [H, T, D] or merged [1, T, H*D]; tokens: [H, D, T]
at::Tensor to_rows(const at::Tensor& x, const GroupFormat& format) {
  if (format.axis == GroupAxis::tokens) return x.transpose(1, 2).contiguous();
  if (format.merge_heads) return x.transpose(0, 1).reshape({1, x.size(1), x.size(0) * x.size(2)});
  return x.contiguous();
}

// The entries of a row of x [H, T, D].
int64_t row_length(const at::Tensor& x, const GroupFormat& format) {
  if (format.axis == GroupAxis::tokens) return x.size(1);
  return format.merge_heads ? x.size(0) * x.size(2) : x.size(2);
}

void check_format(const at::Tensor& x, const GroupFormat& format, const at::Tensor& left_out) {
  KVC_CHECK(x.dim() == 3 && x.is_floating_point(), "quantize_groups: x is ", x.sizes(), " ", x.scalar_type(),
            ", expected [H, T, D] of floats");
  KVC_CHECK((format.bits >= 2 && format.bits <= 6) || format.bits == 8, "quantize_groups: bits ", format.bits,
            ", allowed: 2, 3, 4, 5, 6, 8");
  KVC_CHECK(!format.merge_heads || (format.axis == GroupAxis::channels && format.group_size == 0),
            "quantize_groups: merge_heads needs axis channels and group_size 0");
  KVC_CHECK(!format.merge_tokens || (format.merge_heads && format.symmetric),
            "quantize_groups: merge_tokens needs symmetric and merge_heads");
  KVC_CHECK(!format.symmetric || !left_out.defined(), "quantize_groups: symmetric groups cannot exclude entries");
}

// codes: u8 in to_rows' shape -> packed per head
at::Tensor pack_rows(const at::Tensor& codes, const GroupFormat& format, int64_t n_heads) {
  if (!format.merge_heads) return pack_bits(codes, format.bits);
  const auto per_head = codes.view({codes.size(1), n_heads, codes.size(2) / n_heads}).transpose(0, 1);  // [H, T, D]
  return pack_bits(per_head, format.bits);
}

// A divisor as a tensor: a GPU would multiply by a number's inverse, which rounds twice.
at::Tensor divided(const at::Tensor& x, float by) { return x.div(at::full({}, by, x.options())); }

float largest_symmetric_code(const GroupFormat& format) { return static_cast<float>((1 << (format.bits - 1)) - 1); }

// groups: [..., n_groups, g] fp32 -> codes in groups' shape; sets scale.
at::Tensor symmetric_codes(const at::Tensor& groups, const GroupFormat& format, GroupCodes& result) {
  const float largest = largest_symmetric_code(format);
  auto top = groups.abs().amax(-1, true);
  if (format.merge_tokens) top = top.amax({0, 1, 2}, true);
  result.scale = divided(top.clamp_min(1e-5f), largest).masked_fill_(top == 0, 0).to(storage_type(format.precision));
  check_values(result.scale.isfinite(), codes_not_finite);
  const auto step = result.scale.to(at::kFloat);
  auto codes = groups.div(step).round_().clamp_(-largest, largest);
  return codes.masked_fill_(step == 0, 0).add_(largest).to(at::kByte);
}

at::Tensor asymmetric_codes(const at::Tensor& groups, const at::Tensor& left_out, const GroupFormat& format,
                            GroupCodes& result) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto low = groups, high = groups;
  if (left_out.defined()) {
    const auto mask = to_rows(left_out, format).view(groups.sizes());
    low = groups.masked_fill(mask, kInfinity);
    high = groups.masked_fill(mask, -kInfinity);
  }
  auto zero = low.amin(-1, true), top = high.amax(-1, true);
  const auto empty = zero > top;
  zero = zero.masked_fill(empty, 0), top = top.masked_fill(empty, 0);
  const float levels = static_cast<float>((1 << format.bits) - 1);
  result.zero = zero.to(storage_type(format.precision));
  result.scale = divided(top - zero, levels).to(storage_type(format.precision));
  check_values(at::stack({result.zero, result.scale}).isfinite(), codes_not_finite);
  const auto step = result.scale.to(at::kFloat);
  auto codes = (groups - result.zero.to(at::kFloat)).div_(step).clamp_(0, levels).round_();
  result.zero = result.zero.squeeze(-1);
  return codes.masked_fill(step == 0, 0).to(at::kByte);
}

}  // namespace

int64_t group_length(const at::Tensor& x, const GroupFormat& format) {
  const int64_t len = row_length(x, format), group = format.group_size == 0 ? len : format.group_size;
  KVC_CHECK(len % group == 0, "quantize_groups: group_size ", group, " does not divide the ", len,
            format.axis == GroupAxis::tokens ? " tokens" : " channels");
  return group;
}

GroupCodes codes_for(const at::Tensor& x, const GroupFormat& format, int64_t group) {
  const bool along_tokens = format.axis == GroupAxis::tokens;
  const int64_t len = along_tokens ? x.size(1) : x.size(2), n_rows = along_tokens ? x.size(2) : x.size(1);
  const int64_t n_heads = format.merge_heads ? 1 : x.size(0), n_groups = row_length(x, format) / group;
  const auto new_scales = [&] {
    return at::empty({n_heads, n_rows, n_groups}, x.options().dtype(storage_type(format.precision)));
  };
  return {.codes = at::empty({x.size(0), n_rows, n_packed_words(len, format.bits)}, x.options().dtype(at::kInt)),
          .scale = new_scales(),
          .zero = format.symmetric ? at::Tensor() : new_scales(),
          .format = format,
          .n_heads = x.size(0),
          .n_tokens = x.size(1),
          .head_dim = x.size(2)};
}

GroupCodes quantize_groups(const at::Tensor& x, const GroupFormat& format, const at::Tensor& left_out) {
  const TimedPart timed(WorkPart::quantize);
  const bool has_loop = 32 % format.bits == 0;
  if (!x.is_cpu() || format.merge_tokens || x.numel() == 0 || !has_loop)
    return quantize_groups_reference(x, format, left_out);
  check_format(x, format, left_out);
  auto result = codes_for(x, format, group_length(x, format));
  KVC_CHECK(quantize_pieces(x, left_out, result), codes_not_finite());
  return result;
}

GroupCodes quantize_groups_reference(const at::Tensor& x, const GroupFormat& format, const at::Tensor& left_out) {
  const TimedPart timed(WorkPart::quantize);
  check_format(x, format, left_out);
  const int64_t group = group_length(x, format);
  const auto rows = to_rows(x.to(at::kFloat), format);
  const auto groups = rows.view({rows.size(0), rows.size(1), rows.size(2) / group, group});
  GroupCodes result;
  const auto codes =
      format.symmetric ? symmetric_codes(groups, format, result) : asymmetric_codes(groups, left_out, format, result);
  result.scale = result.scale.squeeze(-1);
  result.codes = pack_rows(codes.view(rows.sizes()), format, x.size(0));
  if (format.axis == GroupAxis::tokens) {
    for (auto* part : {&result.codes, &result.scale, &result.zero}) *part = to_tiles(*part);
  }
  result.format = format;
  result.n_heads = x.size(0), result.n_tokens = x.size(1), result.head_dim = x.size(2);
  return result;
}

GroupCodes GroupCodes::by_rows() const {
  if (format.axis == GroupAxis::channels) return *this;
  auto rows = *this;
  for (auto* part : {&rows.codes, &rows.scale, &rows.zero}) *part = from_tiles(*part);
  return rows;
}

at::Tensor GroupCodes::dequantize() const {
  const TimedPart timed(WorkPart::quantize);
  const bool along_tokens = format.axis == GroupAxis::tokens;
  const int64_t len = along_tokens ? n_tokens : head_dim, n_groups = scale.size(2);
  const auto rows = by_rows();
  const auto floats = unpack_bits(rows.codes, format.bits, len).to(at::kFloat);  // [H, T, D] or [H, D, T]
  auto x = floats.view({n_heads, codes.size(1), n_groups, len / n_groups});
  if (format.symmetric) x.sub_(largest_symmetric_code(format));
  x.mul_(rows.scale.to(at::kFloat).unsqueeze(-1));
  if (zero.defined()) x.add_(rows.zero.to(at::kFloat).unsqueeze(-1));
  return along_tokens ? floats.transpose(1, 2) : floats;
}

GroupCodes GroupCodes::heads(int64_t first, int64_t n) const {
  if (n == n_heads) return *this;
  auto some = *this;
  some.n_heads = n;
  for (auto* part : {&some.codes, &some.scale, &some.zero}) {
    if (part->defined() && part->size(0) == n_heads) *part = part->narrow(0, first, n);  // merged heads share theirs
  }
  return some;
}

int64_t GroupCodes::droppable(int64_t n) const {
  if (format.merge_tokens) return 0;
  if (format.axis == GroupAxis::channels) return n;
  const int64_t n_aligned = format.group_size * format.bits % 32 == 0 ? format.group_size : 0;  // in whole words
  return n_aligned > 0 ? n - n % n_aligned : 0;
}

GroupCodes GroupCodes::without_front(int64_t n) const {
  const bool along_tokens = format.axis == GroupAxis::tokens;
  auto rest = by_rows();
  rest.n_tokens -= n;
  const auto cut = [&](at::Tensor& x, int64_t n_first) {
    if (x.defined()) x = x.narrow(along_tokens ? 2 : 1, n_first, x.size(along_tokens ? 2 : 1) - n_first).contiguous();
    if (x.defined() && along_tokens) x = to_tiles(x);
  };
  cut(rest.codes, along_tokens ? n * format.bits / 32 : n);
  for (auto* part : {&rest.scale, &rest.zero}) cut(*part, along_tokens ? n / format.group_size : n);
  return rest;
}

GroupCodes GroupCodes::followed_by(const GroupCodes& next) const {
  auto both = by_rows();
  const auto rest = next.by_rows();
  both.n_tokens += next.n_tokens;
  both.codes = to_tiles(at::cat({both.codes, rest.codes}, 2));
  both.scale = to_tiles(at::cat({both.scale, rest.scale}, 2));
  if (both.zero.defined()) both.zero = to_tiles(at::cat({both.zero, rest.zero}, 2));
  return both;
}

void GroupCodes::add_to(Footprint& bytes, CacheTensor tensor) const {
  bytes.add(tensor, ByteKind::codes, codes);
  bytes.add(tensor, ByteKind::scales, scale);
  bytes.add(tensor, ByteKind::zeros, zero);
}

}  // namespace kvc
