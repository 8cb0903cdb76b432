// Words of codes as operands of m16n8k16 products: which words a lane reads, and the pairs of numbers that they hold.
//
// A product sums over channels (scores) or tokens (outputs), in any order that both operands agree on. So rows stay as
// they are packed: a lane reads up to 16 neighbouring bytes of a token, and whatever channels these are, the query's
// fragment holds the same ones.
// Pair j of a word is its codes j and j + kCodes / 2, which stand at the same place of its two halves: one LOP3 takes
// both and sets the exponent of 1024 (0x6400) above them, which makes two fp16 numbers of them without a conversion;
// one HFMA2 leaves the codes, exactly, and a second one scales them. (The magic number is FasterTransformer's; pairs
// from two halves are BitDecoding's and TurboMind's.)
#pragma once

#include "cuda/decode.cuh"

namespace kvc::KVC_DEVICE {

// How kLanes lanes share a row's words: lane l reads chunks l, l + kLanes, .. of kVector words.
template <class Format, int kDim, int kLanes>
struct Share {
  static constexpr int kWords = kDim / Format::kCodes / kLanes;  // a lane and token
  static_assert(kWords * kLanes * Format::kCodes == kDim, "lanes share whole words");
  static constexpr int kVector = kWords % 4 == 0 && Format::kCodes <= 8 ? 4 : kWords % 2 == 0 ? 2 : 1;
  static constexpr int kChunkCodes = kVector * Format::kCodes;  // at most 32: it lies in one group
  static constexpr int kChunks = kWords / kVector;

  __device__ static constexpr int channel(int lane, int word) {
    return (word / kVector * kLanes + lane) * kChunkCodes + word % kVector * Format::kCodes;
  }
};

template <class S>
__device__ __forceinline__ void load_words(gmem_ptr<const unsigned> row, int lane, int kLanes,
                                           unsigned (&to)[S::kWords]) {
#pragma unroll
  for (int c = 0; c < S::kChunks; ++c) {
    const int chunk = c * kLanes + lane;
    if constexpr (S::kVector == 4) {
      const uint4 x = pointer_cast<const uint4>(row)[chunk];
      to[4 * c] = x.x, to[4 * c + 1] = x.y, to[4 * c + 2] = x.z, to[4 * c + 3] = x.w;
    } else if constexpr (S::kVector == 2) {
      const uint2 x = pointer_cast<const uint2>(row)[chunk];
      to[2 * c] = x.x, to[2 * c + 1] = x.y;
    } else {
      to[c] = row[chunk];
    }
  }
}

// (code j, code j + kCodes / 2) of a word, each less the format's centre, exactly.
template <class Format>
__device__ __forceinline__ __half2 code_pair(unsigned word, int j) {
  constexpr int kBits = Format::kBits;
  if constexpr (kBits == 8) {
    const __half2 magic = as_half2(prmt(word, 0x64646464u, j == 0 ? 0x4240u : 0x4341u));
    return __hadd2(magic, __float2half2_rn(-1024.0f - Format::kCentre));
  } else {
    constexpr int kPlaces = 8 / kBits;  // of codes within the 10 bits below the exponent
    const int place = j % kPlaces * kBits;
    const unsigned mask = ((1u << kBits) - 1u) * 0x00010001u << place;
    const __half2 magic = as_half2(lop3<0xea>(j < kPlaces ? word : word >> 8, mask, 0x64006400u));  // (a & b) | c
    const float unit = 1.0f / static_cast<float>(1 << place);
    return __hfma2(magic, __float2half2_rn(unit), __float2half2_rn(-1024.0f * unit - Format::kCentre));
  }
}

// Two groups' scales, and two groups' zeros.
struct SidePair {
  __half2 scale, zero;
};

template <class Format>
__device__ __forceinline__ SidePair side_pair(gmem_ptr<const __half> sides, int64_t a, int64_t b) {
  if constexpr (Format::kSymmetric) {
    const __half x = sides[a], y = sides[b];
    return {__halves2half2(x, y), __float2half2_rn(0.0f)};
  } else {
    const __half2 x = pointer_cast<const __half2>(sides)[a], y = pointer_cast<const __half2>(sides)[b];
    return {as_half2(prmt(as_bits(x), as_bits(y), 0x5410)), as_half2(prmt(as_bits(x), as_bits(y), 0x7632))};
  }
}

// Pair j of a word as an operand's two numbers.
template <class Format>
__device__ __forceinline__ unsigned number_pair(unsigned word, int j, const SidePair& sides) {
  if constexpr (Format::kBits == 16) {
    return word;
  } else if constexpr (Format::kSymmetric) {
    return as_bits(__hmul2(code_pair<Format>(word, j), sides.scale));
  } else {
    return as_bits(__hfma2(code_pair<Format>(word, j), sides.scale, sides.zero));
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
