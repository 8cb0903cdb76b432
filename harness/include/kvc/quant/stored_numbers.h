// How numbers of K and V are stored: the vocabulary that caches, the CPU's loops and CUDA kernels share. Plain C++, no
// LibTorch.
#pragma once

#include <cstdint>

namespace kvc {

enum class NumberType : int { f32, f16, bf16, e8m0, e4m3 };  // e8m0: 2^(byte - 127); e4m3: kvc/quant/small_floats.h

enum class Float8 : int { e4m3, e5m2 };  // kvc/quant/small_floats.h

[[gnu::always_inline]] constexpr int64_t size_of(NumberType type) {  // bytes
  return type == NumberType::f32 ? 4 : type == NumberType::f16 || type == NumberType::bf16 ? 2 : 1;
}

// Stored numbers, such as the scales or zeros of a matrix.
struct NumberArray {
  const void* data = nullptr;  // null: zeros
  NumberType type = NumberType::f32;
  int64_t n = 0;
};

// Which g entries of x [H, T, D] form a group that does not lie in one token or channel. If g does not divide their
// number, the last group (strided: any) is padded with copies of its own first entry.
enum class GroupOrder {
  flat,     // neighbours in memory: channels of a token, continuing into the next if g does not divide D
  rows,     // one channel of g neighbouring rows of [H*T, D]; a group may cross from head to head
  strided,  // every ceil(H*T*D / g)-th entry
};

}  // namespace kvc
