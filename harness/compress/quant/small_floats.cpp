#include "kvc/quant/small_floats.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "head_rows.h"
#include "kernels/code_books.h"
#include "kvc/quant/code_book.h"

namespace kvc {
namespace {

constexpr int64_t kRunTokens = 64;          // of a head, which the processor's cache holds
constexpr int64_t kLeastNumbers = 1 << 17;  // worth waking a thread for

// f(head, first token, floats of n tokens `stride` apart, n, stride), a run after the other, heads shared by the
// threads.
template <class F>
void for_each_run(const at::Tensor& x, F f) {
  const HeadRows rows(x);
  const int64_t n_tokens = rows.size(1), numbers = std::max<int64_t>(1, n_tokens * rows.size(2));
  at::parallel_for(0, rows.size(0), std::max<int64_t>(1, kLeastNumbers / numbers), [&](int64_t head, int64_t end) {
    std::vector<float> held;
    for (; head < end; ++head) {
      for (int64_t first = 0; first < n_tokens; first += kRunTokens) {
        const int64_t n = std::min(kRunTokens, n_tokens - first);
        int64_t stride = 0;
        const float* run = rows.read(head, first, n, held, stride);
        f(head, first, run, n, stride);
      }
    }
  });
}

// The same by operations that any device has, to the same bits.
namespace on_device {

at::ScalarType scalar_type_of(Float8 type) { return type == Float8::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2; }

// LibTorch's conversion rounds half to even, but does not saturate.
at::Tensor to_float8(Float8 type, const at::Tensor& x) {
  return x.clamp(-largest_of(type), largest_of(type)).to(scalar_type_of(type)).view(at::kByte);
}

// From 2 on steps are 1, from 4 on they are 2; half of a step goes to the even code.
at::Tensor to_e2m1(const at::Tensor& x) {
  const auto size = x.abs().clamp_max_(kLargestE2m1);
  const auto code = at::where(size.lt(2), size.mul(2).round_(),
                              at::where(size.lt(4), size.round().add_(2), size.div(2).round_().add_(4)));
  return code.add_(x.signbit(), 8).to(at::kByte);
}

// The code's bits where a float has its exponent and fraction.
at::Tensor from_e2m1(const at::Tensor& codes) {
  const auto size = codes.to(at::kInt).bitwise_and_(7).bitwise_left_shift_(22).view(at::kFloat).mul_(0x1p126f);
  return at::where(codes.bitwise_and(8).ne(0), -size, size);
}

}  // namespace on_device

constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace

uint8_t e4m3_code(float x) {
  uint8_t code = 0;
  kernels::to_e4m3(&x, 1, 1, &code);
  return code;
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

at::Tensor to_e4m3(const at::Tensor& x) {
  if (!x.is_cpu()) return on_device::to_float8(Float8::e4m3, x);
  const auto in = x.contiguous();
  auto codes = at::empty(x.sizes(), at::kByte);
  kernels::to_e4m3(in.const_data_ptr<float>(), in.numel(), 1, codes.data_ptr<uint8_t>());
  return codes;
}

at::Tensor to_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale) {
  if (!x.is_cpu()) return on_device::to_float8(type, x.to(at::kFloat).div(scale));
  const auto encode = type == Float8::e4m3 ? kernels::to_e4m3 : kernels::to_e5m2;
  auto codes = at::empty(x.sizes(), at::kByte);
  auto* out = codes.data_ptr<uint8_t>();
  const int64_t n_tokens = x.size(1), d = x.size(2);
  for_each_run(x, [&](int64_t head, int64_t first, const float* run, int64_t n, int64_t stride) {
    const float by = scale.const_data_ptr<float>()[head];
    for (int64_t t = 0; t < n; ++t) {
      encode(run + t * stride, d, by, out + (head * n_tokens + first + t) * d);
    }
  });
  return codes;
}

at::Tensor largest_of_heads(const at::Tensor& x) {
  if (!x.is_cpu()) return x.to(at::kFloat).abs().amax({1, 2}, true);
  auto largest = at::zeros({x.size(0), 1, 1}, at::kFloat);
  auto* out = largest.data_ptr<float>();
  for_each_run(x, [&](int64_t head, int64_t, const float* run, int64_t n, int64_t stride) {
    for (int64_t t = 0; t < n; ++t) {
      const float size = kernels::largest_magnitude(run + t * stride, x.size(2));
      if (size > out[head] || std::isnan(size)) out[head] = size;
    }
  });
  return largest;
}

at::Tensor from_e4m3(const at::Tensor& codes) { return from_float8(Float8::e4m3, codes); }

at::Tensor from_float8(Float8 type, const at::Tensor& codes) {
  if (!codes.is_cpu()) return codes.view(on_device::scalar_type_of(type)).to(at::kFloat);
  const auto in = codes.contiguous();
  auto x = at::empty(codes.sizes(), at::kFloat);
  const auto decode = type == Float8::e4m3 ? kernels::from_e4m3 : kernels::from_e5m2;
  decode(in.const_data_ptr<uint8_t>(), in.numel(), x.data_ptr<float>());
  return x;
}

at::Tensor to_e2m1(const at::Tensor& x) {
  if (!x.is_cpu()) return on_device::to_e2m1(x);
  const auto in = x.contiguous();
  auto codes = at::empty(x.sizes(), at::kByte);
  const float* from = in.const_data_ptr<float>();
  std::transform(from, from + in.numel(), codes.data_ptr<uint8_t>(), e2m1_code);
  return codes;
}

at::Tensor from_e2m1(const at::Tensor& codes) {
  if (!codes.is_cpu()) return on_device::from_e2m1(codes);
  const auto in = codes.contiguous();
  auto x = at::empty(codes.sizes(), at::kFloat);
  const auto* from = in.const_data_ptr<uint8_t>();
  std::transform(from, from + in.numel(), x.data_ptr<float>(), e2m1_value);
  return x;
}

CodeBook e2m1_book() { return {kE2m1, 4}; }

}  // namespace kvc
