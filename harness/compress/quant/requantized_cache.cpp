#include "kvc/quant/requantized_cache.h"

#include <ATen/ATen.h>

#include "kernels/quantize_groups.h"

namespace kvc {
namespace {

int64_t up_to_multiple(int64_t n, int64_t of) { return (n + of - 1) / of * of; }

// rows [n, X] filled up to a multiple of g with copies of the first row of the last group
at::Tensor filled_up(const at::Tensor& rows, int64_t g) {
  const int64_t n = rows.size(0), missing = up_to_multiple(n, g) - n;
  if (missing == 0) return rows;
  return at::cat({rows, rows.narrow(0, n / g * g, 1).expand({missing, rows.size(1)})});
}

// The same as from_groups of what they decode to, without the groups in between.
at::Tensor decoded_strided(const GroupCodes& x, at::IntArrayRef sizes) {
  auto out = at::empty(sizes, at::kFloat);
  const auto scale = x.scale.to(at::kFloat), zero = x.zero.to(at::kFloat);
  kernels::decode_strided(x.codes.const_data_ptr<int32_t>(), x.codes.size(1), x.codes.size(2), x.format.bits,
                          scale.const_data_ptr<float>(), zero.const_data_ptr<float>(), out.numel(),
                          out.data_ptr<float>());
  return out;
}

// The encoded tokens, [H, T, D] fp32, contiguous.
at::Tensor decoded(const RequantizedTokens& x, GroupOrder order) {
  if (order == GroupOrder::strided && x.codes.codes.is_cpu() && x.codes.zero.defined()) {
    return decoded_strided(x.codes, x.sizes);
  }
  const auto groups = x.codes.dequantize();
  return (x.by_token ? groups : from_groups(groups[0], order, x.sizes)).contiguous();
}

}  // namespace

at::Tensor to_groups(const at::Tensor& x, GroupOrder order, int64_t g) {
  if (order == GroupOrder::rows) {
    const auto rows = filled_up(x.reshape({-1, x.size(2)}), g);
    return rows.view({rows.size(0) / g, g, rows.size(1)}).transpose(1, 2).reshape({-1, g});
  }
  const auto entries = x.reshape({-1, 1});
  if (order == GroupOrder::flat) return filled_up(entries, g).view({-1, g});
  const int64_t n = entries.size(0), n_groups = (n + g - 1) / g;
  const auto missing =
      entries.index_select(0, at::arange(n, n_groups * g, entries.options().dtype(at::kLong)).remainder(n_groups));
  return at::cat({entries, missing}).view({g, n_groups}).t();  // a view: sums over a group run in its memory's order
}

at::Tensor from_groups(const at::Tensor& groups, GroupOrder order, at::IntArrayRef sizes) {
  const int64_t h = sizes[0], n = sizes[1], d = sizes[2], g = groups.size(1);
  if (order == GroupOrder::rows) {
    const auto rows = groups.view({groups.size(0) / d, d, g}).transpose(1, 2).reshape({-1, d});
    return rows.narrow(0, 0, h * n).reshape(sizes);
  }
  const auto entries = order == GroupOrder::flat ? groups.reshape({-1}) : groups.t().reshape({-1});
  return entries.narrow(0, 0, h * n * d).reshape(sizes);
}

void RequantizedTokens::encode_all(GroupOrder order, const RequantizedFormat& format) {
  const auto x = dequantize(order);
  codes = format.encode(to_groups(x, order, format.group_size).unsqueeze(0));
  recent.pop_front(recent.n_tokens());
  sizes = x.sizes().vec();
  const int64_t h = sizes[0], n = sizes[1], d = sizes[2], g = format.group_size;
  by_token = order == GroupOrder::flat && d % g == 0;
  if (!by_token) return;
  codes.codes = codes.codes.view({h, n, -1});  // groups fill whole words, so tokens follow one another
  codes.scale = codes.scale.view({h, n, d / g});
  codes.zero = codes.zero.view({h, n, d / g});
  codes.format.group_size = g;
  codes.n_heads = h, codes.n_tokens = n, codes.head_dim = d;
}

at::Tensor RequantizedTokens::dequantize(GroupOrder order) const {
  if (sizes[1] == 0) return recent.all();
  const auto x = decoded(*this, order);
  return recent.n_tokens() == 0 ? x : at::cat({x, recent.all()}, 1);
}

void RequantizedTokens::add_to(Footprint& bytes, CacheTensor tensor) const {
  codes.add_to(bytes, tensor);
  recent.add_to(bytes, tensor);
}

RequantizedCache::RequantizedCache(const LayerInfo& info, const RequantizedFormat& format)
    : PartsCache(info), format_(format), k_(format.precision), v_(format.precision) {}

void RequantizedCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  const bool prompt = length() == 0;
  if (due_) encode_all();
  const int64_t n_before = n_recent();
  if (info().holds_k()) k_.recent.push_back(tokens.k);
  if (info().holds_v()) v_.recent.push_back(tokens.v);
  if (prompt) encode_all();
  due_ = n_before > 0 && n_before + 1 >= format_.window;  // one token in the window is never enough
}

void RequantizedCache::encode_all() {
  if (info().holds_k()) k_.encode_all(format_.k, format_);
  if (info().holds_v()) v_.encode_all(format_.v, format_);
}

// On the codes where a group lies within a token, and on a device; else on what they decode to.
void RequantizedCache::read_k(CompressedAttention& attention) const {
  const int64_t n = n_encoded_tokens();
  if (n > 0 && k_.by_token) {
    attention.score(k_.codes, 0);
  } else if (n > 0 && attention.q().is_cpu()) {
    attention.score(decoded(k_, format_.k), 0);
  } else if (n > 0) {
    attention.score(k_.codes, format_.k, k_.sizes, 0);
  }
  attention.score(k_.recent, n);
}

void RequantizedCache::read_v(CompressedAttention& attention) const {
  const int64_t n = n_encoded_tokens();
  if (n > 0 && v_.by_token) {
    attention.accumulate_v(v_.codes, 0);
  } else if (n > 0 && attention.q().is_cpu()) {
    attention.accumulate_v(decoded(v_, format_.v), 0);
  } else if (n > 0) {
    attention.accumulate_v(v_.codes, format_.v, v_.sizes, 0);
  }
  attention.accumulate_v(v_.recent, n);
}

Footprint RequantizedCache::footprint() const {
  Footprint bytes;
  k_.add_to(bytes, CacheTensor::k);
  v_.add_to(bytes, CacheTensor::v);
  return bytes;
}

}  // namespace kvc
