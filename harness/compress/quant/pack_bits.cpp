#include "kvc/quant/pack_bits.h"

#include <ATen/ATen.h>

#include "kernels/quantize_groups.h"

namespace kvc {
namespace {

std::vector<int64_t> with_last(const at::Tensor& x, int64_t last) {
  auto sizes = x.sizes().vec();
  sizes.back() = last;
  return sizes;
}

void check_bits(int64_t bits, const at::Tensor& x) {
  KVC_CHECK(bits >= 1 && bits <= 8, "pack_bits: bits ", bits, ", allowed: 1 to 8");
}

// 0, 1, ... n - 1 as shifts
at::Tensor shifts(int64_t n, const at::Tensor& like) {
  return at::arange(n, at::TensorOptions(at::kLong).device(like.device()));
}

// Each bit as a number: x [..., n] integers of `width` bits -> [..., n * width], the lowest first; and back.
at::Tensor bits_of(const at::Tensor& x, int64_t width) {
  return x.to(at::kLong).unsqueeze(-1).bitwise_right_shift(shifts(width, x)).bitwise_and_(1).flatten(-2);
}
at::Tensor from_bits(const at::Tensor& bits, int64_t width) {
  return bits.unflatten(-1, {-1, width}).bitwise_left_shift(shifts(width, bits)).sum(-1);
}

void pack_rows(const uint8_t* codes, int64_t n_rows, int64_t len, int64_t bits, int32_t* words) {
  if (bits == 2 || bits == 4 || bits == 8) return kernels::pack(codes, n_rows, len, bits, words);
  for (int64_t row = 0; row < n_rows; ++row, codes += len) {
    uint64_t held = 0;
    int64_t n_bits = 0;
    for (int64_t j = 0; j < len; ++j) {
      held |= static_cast<uint64_t>(codes[j]) << n_bits;
      n_bits += bits;
      if (n_bits >= 32) {
        *words++ = static_cast<int32_t>(held);
        held >>= 32;
        n_bits -= 32;
      }
    }
    if (n_bits > 0) *words++ = static_cast<int32_t>(held);
  }
}

void unpack_rows(const int32_t* words, int64_t n_rows, int64_t len, int64_t bits, uint8_t* codes) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (int64_t row = 0; row < n_rows; ++row, codes += len) {
    uint64_t held = 0;
    int64_t n_bits = 0;
    for (int64_t j = 0; j < len; ++j) {
      if (n_bits < bits) {
        held |= static_cast<uint64_t>(static_cast<uint32_t>(*words++)) << n_bits;
        n_bits += 32;
      }
      codes[j] = static_cast<uint8_t>(held & mask);
      held >>= bits;
      n_bits -= bits;
    }
  }
}

}  // namespace

at::Tensor pack_bits(const at::Tensor& codes, int64_t bits) {
  check_bits(bits, codes);
  KVC_CHECK(codes.scalar_type() == at::kByte, "pack_bits: codes of type ", codes.scalar_type(), ", expected uint8");
  const int64_t len = codes.size(-1), n_words = n_packed_words(len, bits);
  if (codes.is_cpu()) {
    const auto rows = codes.contiguous();
    auto words = at::empty(with_last(codes, n_words), at::kInt);
    pack_rows(rows.const_data_ptr<uint8_t>(), rows.numel() / std::max<int64_t>(len, 1), len, bits,
              words.data_ptr<int32_t>());
    return words;
  }
  return from_bits(at::constant_pad_nd(bits_of(codes, bits), {0, n_words * 32 - len * bits}), 32).to(at::kInt);
}

at::Tensor unpack_bits(const at::Tensor& words, int64_t bits, int64_t len) {
  check_bits(bits, words);
  KVC_CHECK(words.scalar_type() == at::kInt && words.size(-1) == n_packed_words(len, bits), "unpack_bits: words ",
            words.sizes(), " ", words.scalar_type(), ", expected int32 with last axis ", n_packed_words(len, bits));
  if (words.is_cpu()) {
    const auto rows = words.contiguous();
    auto codes = at::empty(with_last(words, len), at::kByte);
    unpack_rows(rows.const_data_ptr<int32_t>(), rows.numel() / std::max<int64_t>(rows.size(-1), 1), len, bits,
                codes.data_ptr<uint8_t>());
    return codes;
  }
  return from_bits(bits_of(words, 32).narrow(-1, 0, len * bits), bits).to(at::kByte);
}

}  // namespace kvc
