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
  return at::arange(n, at::TensorOptions(at::kByte).device(like.device()));
}

// On devices, by LibTorch's operators on bytes: words are little-endian.

// Numbers [..., n] of 1, 2 or 4 bits as bytes -> [..., n * bits / 8], the lowest bits first; and back.
at::Tensor joined_bytes(at::Tensor x, int64_t bits) {
  for (; bits < 8; bits *= 2) {
    x = x.unflatten(-1, {x.size(-1) / 2, 2});
    x = x.select(-1, 0).bitwise_or(x.select(-1, 1).bitwise_left_shift(bits));
  }
  return x;
}
at::Tensor split_bytes(at::Tensor x, int64_t bits) {
  for (int64_t half = 4; half >= bits; half /= 2) {
    x = at::stack({x.bitwise_and((1 << half) - 1), x.bitwise_right_shift(half)}, -1).flatten(-2);
  }
  return x;
}

constexpr int64_t kFewNumbers = 1 << 16;

// f of x's rows, into the rows of `to`; where they are many, a sixteenth at a time, since f allocates several times what
// it is given.
template <class F>
at::Tensor by_rows(const at::Tensor& x, const at::Tensor& to, const F& f) {
  const auto from = x.unsqueeze(0).flatten(0, -2), rows = to.unsqueeze(0).flatten(0, -2);
  const int64_t n_parts = x.numel() < kFewNumbers ? 1 : 16, step = std::max<int64_t>(from.size(0) / n_parts, 1);
  for (int64_t begin = 0; begin < from.size(0); begin += step) {
    const int64_t n = std::min(step, from.size(0) - begin);
    rows.narrow(0, begin, n).copy_(f(from.narrow(0, begin, n)));
  }
  return to;
}

at::Tensor pack_there(const at::Tensor& codes, int64_t bits, int64_t n_words) {
  const auto filled = [&](const at::Tensor& units, int64_t width) {
    const int64_t missing = n_words * 32 / width - units.size(-1);
    return joined_bytes(missing > 0 ? at::constant_pad_nd(units, {0, missing}) : units, width)
        .contiguous()
        .view(at::kInt);
  };
  if (8 % bits == 0) return filled(codes, bits);
  const auto words = at::empty(with_last(codes, n_words), codes.options().dtype(at::kInt));
  return by_rows(codes, words, [&](const at::Tensor& rows) {
    return filled(rows.unsqueeze(-1).bitwise_right_shift(shifts(bits, rows)).bitwise_and_(1).flatten(-2), 1);
  });
}

at::Tensor unpack_there(const at::Tensor& words, int64_t bits, int64_t len) {
  const auto bytes = words.contiguous().view(at::kByte);
  if (8 % bits == 0) return split_bytes(bytes, bits).narrow(-1, 0, len).contiguous();
  const auto codes = at::empty(with_last(words, len), bytes.options());
  return by_rows(bytes, codes, [&](const at::Tensor& rows) {
    const auto units = split_bytes(rows, 1).narrow(-1, 0, len * bits).unflatten(-1, {len, bits});
    return units.bitwise_left_shift(shifts(bits, words)).sum(-1, /*keepdim=*/false, at::kByte);
  });
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
  return pack_there(codes, bits, n_words);
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
  return unpack_there(words, bits, len);
}

}  // namespace kvc
