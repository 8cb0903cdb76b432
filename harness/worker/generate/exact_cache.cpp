#include "generate/exact_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvc {
namespace {

constexpr int64_t kFirstCapacity = 256;

// Copies x [H_kv, T, D] after the first `length` tokens of held, which grows when it must.
void put_after_(at::Tensor& held, const at::Tensor& x, int64_t length) {
  const int64_t needed = length + x.size(1);
  if (!held.defined() || held.size(1) < needed) {
    auto wider = at::empty({x.size(0), std::max({kFirstCapacity, 2 * length, needed}), x.size(2)}, x.options());
    if (length > 0) wider.narrow(1, 0, length).copy_(held.narrow(1, 0, length));
    held = wider;
  }
  held.narrow(1, length, x.size(1)).copy_(x);
}

}  // namespace

void ExactCache::append(const NewTokens& tokens) {
  check_new_tokens(tokens);
  put_after_(k_, tokens.k, length_);
  put_after_(v_, tokens.v, length_);
  length_ += tokens.k.size(1);
}

KeyValue ExactCache::dequantize() const {
  return {k_.narrow(1, 0, length_).to(at::kFloat), v_.narrow(1, 0, length_).to(at::kFloat)};
}

Footprint ExactCache::footprint() const {
  Footprint bytes;
  bytes.add(CacheTensor::k, ByteKind::recent, k_);
  bytes.add(CacheTensor::v, ByteKind::recent, v_);
  return bytes;
}

}  // namespace kvc
