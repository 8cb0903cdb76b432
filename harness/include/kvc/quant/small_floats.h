// Floating-point numbers of 8 and 4 bits, without infinities. Conversion rounds half to even and saturates.
//   e4m3 (OCP FP8, "e4m3fn"): sign, 4 exponent bits of bias 7, 3 mantissa bits; largest 448, smallest 2^-9; 0x7f is NaN
//   e5m2 (OCP FP8): sign, 5 exponent bits of bias 15, 2 mantissa bits; largest 57344, smallest 2^-16; 0x7c is infinite,
//     0x7d to 0x7f are NaN; the upper byte of an fp16 number
//   e2m1 (OCP MXFP4, NVFP4): sign, 2 exponent bits of bias 1, 1 mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kvc/check.h"
#include "kvc/quant/code_book.h"
#include "kvc/quant/stored_numbers.h"

namespace kvc {

constexpr float kLargestE4m3 = 448, kLargestE5m2 = 57344, kLargestE2m1 = 6;
inline float largest_of(Float8 type) { return type == Float8::e4m3 ? kLargestE4m3 : kLargestE5m2; }

KVC_EXPORT uint8_t e4m3_code(float x);  // x is not NaN
KVC_EXPORT float e4m3_value(uint8_t code);
KVC_EXPORT uint8_t e2m1_code(float x);  // 0 ... 15
KVC_EXPORT float e2m1_value(uint8_t code);

// x: fp32 -> u8 of the same shape, one code per byte; and back
KVC_EXPORT at::Tensor to_e4m3(const at::Tensor& x);
KVC_EXPORT at::Tensor from_e4m3(const at::Tensor& codes);
KVC_EXPORT at::Tensor to_e2m1(const at::Tensor& x);
KVC_EXPORT at::Tensor from_e2m1(const at::Tensor& codes);

// x [H, T, D] of any float type, scale [H, 1, 1] fp32 -> u8: codes of x / scale, parallel over heads
KVC_EXPORT at::Tensor to_float8(Float8 type, const at::Tensor& x, const at::Tensor& scale);
KVC_EXPORT at::Tensor from_float8(Float8 type, const at::Tensor& codes);  // u8 -> fp32
// The largest magnitude of each head, [H, 1, 1] fp32; no entry is NaN
KVC_EXPORT at::Tensor largest_of_heads(const at::Tensor& x);

KVC_EXPORT CodeBook e2m1_book();  // the 16 values

}  // namespace kvc
