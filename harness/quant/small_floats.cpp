#include "kvc/quant/small_floats.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/code_books.h"
#include "kvc/quant/code_book.h"

namespace kvc {
namespace {

template <class F>
at::Tensor encoded(const at::Tensor& x, F code_of) {
  const auto in = x.contiguous();
  auto codes = at::empty(x.sizes(), at::kByte);
  const float* from = in.const_data_ptr<float>();
  auto* to = codes.data_ptr<uint8_t>();
  for (int64_t i = 0; i < in.numel(); ++i) to[i] = code_of(from[i]);
  return codes;
}

constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace

uint8_t e4m3_code(float x) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) >> 24 & 0x80u;
  const float size = std::min(std::fabs(x), kLargestE4m3);
  if (size < 0x1p-6f) return static_cast<uint8_t>(sign | static_cast<uint32_t>(std::nearbyint(size * 0x1p9f)));
  const uint32_t bits = std::bit_cast<uint32_t>(size);
  const uint32_t rounded = bits + 0x7ffffu + (bits >> 20 & 1u);  // half to even at the third mantissa bit
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return NAN;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 0x80 ? -size : size;
}

uint8_t e2m1_code(float x) {
  const float size = std::fabs(x);
  // Between two values the middle belongs to the even code.
  const int code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
                   (size >= 3.5f) + (size > 5.f);
  return static_cast<uint8_t>(std::signbit(x) ? code | 8 : code);
}

float e2m1_value(uint8_t code) { return kE2m1[code & 15]; }

at::Tensor to_e4m3(const at::Tensor& x) { return encoded(x, e4m3_code); }
at::Tensor from_e4m3(const at::Tensor& codes) {
  const auto in = codes.contiguous();
  auto x = at::empty(codes.sizes(), at::kFloat);
  kernels::from_e4m3(in.const_data_ptr<uint8_t>(), in.numel(), x.data_ptr<float>());
  return x;
}
at::Tensor to_e2m1(const at::Tensor& x) { return encoded(x, e2m1_code); }
at::Tensor from_e2m1(const at::Tensor& codes) {
  const auto in = codes.contiguous();
  auto x = at::empty(codes.sizes(), at::kFloat);
  const auto* from = in.const_data_ptr<uint8_t>();
  std::transform(from, from + in.numel(), x.data_ptr<float>(), e2m1_value);
  return x;
}

CodeBook e2m1_book() { return {kE2m1, 4}; }

}  // namespace kvc
