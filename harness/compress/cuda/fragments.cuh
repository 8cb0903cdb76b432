// Words of codes as operands of m16n8k16 products: which words a lane reads, and the pairs of numbers that they hold.
//
// A product sums over channels (scores) or tokens (outputs), in any order that both operands agree on. So rows stay as
// they are packed: a lane reads up to 16 neighbouring bytes of a token, and whatever channels these are, the query's
// fragment holds the same ones.
// A register holds kCodes codes; pair j is those at the same place of its two halves: codes j and j + kCodes / 2 of a
// word, or, where two words' halves were put together, code j of both. One LOP3 takes both codes and sets the exponent
// of 64 above them, which makes fp16 numbers 64 + code 2^(place - 4) of them without a conversion; one HFMA2 takes 64
// scales off and leaves scale * code * 2^(place - 4), rounded once, since 64 scales are exact. The power of two that is
// left stands in the other operand, or goes at the end. (The magic exponent is FasterTransformer's, pairs from two
// halves are BitDecoding's and TurboMind's; these take a second HFMA2.)
#pragma once

#include <type_traits>

#include "cuda/warp.cuh"

namespace kvc::KVC_DEVICE {

// 2, 4 or 8 bits: codes; 16: the numbers themselves.
template <int bits, bool along_tokens = false>
struct Format {
  static_assert(bits == 2 || bits == 4 || bits == 8 || bits == 16);
  static constexpr int kBits = bits;
  static constexpr bool kAlongTokens = along_tokens;  // codes and groups of a channel's tokens, not a token's channels
  static constexpr int kCodes = 32 / bits;            // a word
  static constexpr int kPairs = kCodes / 2;           // a register

  __device__ static constexpr int place(int pair) { return bits >= 8 ? 0 : pair % (8 / bits) * bits; }
  // What the numbers of a pair have to be multiplied by.
  __device__ static constexpr float unit(int pair) {
    return bits == 16 ? 1.0f : 16.0f / static_cast<float>(1 << place(pair));
  }
};

// How kLanes lanes share a token's row: lane l reads chunks l, l + kLanes, .. of a chunk's bytes each.
template <class Format, int kDim, int kLanes>
struct Share {
  static constexpr int kBytes = kDim * Format::kBits / 8 / kLanes;  // a lane and token
  static_assert(kBytes * kLanes * 8 == kDim * Format::kBits && kBytes % 2 == 0, "lanes share whole halves of words");
  static constexpr bool kHalfWords = kBytes % 4 != 0;                              // each in a register of its own
  static constexpr int kUnitCodes = kHalfWords ? Format::kPairs : Format::kCodes;  // a register
  static constexpr int kUnits = kDim / kLanes / kUnitCodes;
  static constexpr int kVector = kHalfWords ? 1 : kUnits % 4 == 0 && Format::kCodes <= 8 ? 4 : kUnits % 2 == 0 ? 2 : 1;
  static constexpr int kChunkCodes = kVector * kUnitCodes;  // at most 32: it lies in one group
  static constexpr int kChunks = kUnits / kVector;

  __device__ static constexpr int channel(int lane, int unit) {
    return (unit / kVector * kLanes + lane) * kChunkCodes + unit % kVector * kUnitCodes;
  }
};

template <class S, int kLanes>
__device__ __forceinline__ void load_units(gmem_ptr<const unsigned char> row, int lane, unsigned (&to)[S::kUnits]) {
#pragma unroll
  for (int c = 0; c < S::kChunks; ++c) {
    const int chunk = c * kLanes + lane;
    if constexpr (S::kHalfWords) {
      to[c] = pointer_cast<const unsigned short>(row)[chunk];
    } else if constexpr (S::kVector == 4) {
      const uint4 x = pointer_cast<const uint4>(row)[chunk];
      to[4 * c] = x.x, to[4 * c + 1] = x.y, to[4 * c + 2] = x.z, to[4 * c + 3] = x.w;
    } else if constexpr (S::kVector == 2) {
      const uint2 x = pointer_cast<const uint2>(row)[chunk];
      to[2 * c] = x.x, to[2 * c + 1] = x.y;
    } else {
      to[c] = pointer_cast<const unsigned>(row)[chunk];
    }
  }
}

// The lower (or upper) halves of two registers.
__device__ __forceinline__ unsigned lower_halves(unsigned a, unsigned b) { return prmt(a, b, 0x5410); }
__device__ __forceinline__ unsigned upper_halves(unsigned a, unsigned b) { return prmt(a, b, 0x7632); }

// Two groups' scales (fp16 up to 1023), as scaled_pair takes them.
struct Scales {
  __half2 scale, minus_64;
};
__device__ __forceinline__ Scales scales_of(unsigned a, unsigned b) {
  const __half2 scale = as_half2(lower_halves(a, b));
  return {scale, __hmul2(scale, __float2half2_rn(-64.0f))};
}

// scale * code / unit(pair), each rounded once; with 16 bits the numbers.
template <class Format>
__device__ __forceinline__ unsigned scaled_pair(unsigned codes, int pair, const Scales& scales) {
  if constexpr (Format::kBits == 16) {
    return codes;
  } else if constexpr (Format::kBits == 8) {
    const __half2 magic = as_half2(prmt(codes, 0x54545454u, pair == 0 ? 0x4240u : 0x4341u));
    return as_bits(__hfma2(magic, scales.scale, scales.minus_64));
  } else {
    const unsigned mask = ((1u << Format::kBits) - 1u) * 0x00010001u << Format::place(pair);
    const unsigned near = pair < 8 / Format::kBits ? codes : codes >> 8;
    const __half2 magic = as_half2(lop3<0xea>(near, mask, 0x54005400u));  // (a & b) | c
    return as_bits(__hfma2(magic, scales.scale, scales.minus_64));
  }
}

template <class T>
__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (std::is_same_v<T, __half>) {
    mma_f16(sum, a, b);
  } else {
    mma_bf16(sum, a, b);
  }
}

template <class T>
__device__ __forceinline__ unsigned pack(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    return as_bits(__floats2half2_rn(low, high));
  } else {
    return as_bits(__floats2bfloat162_rn(low, high));
  }
}

}  // namespace kvc::KVC_DEVICE
