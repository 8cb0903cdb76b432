// The values of a block, 32 at a time in their order: two vectors of 16 floats. A product has factors of at most 11
// bits (the half), 6 or 8 (a K block's scale) and 6 (the code), so it is exact in fp32, and a value is rounded once at
// most: its bits are the same whether or not the machine fuses multiply and add.
// Compiled once for each KVC_MACHINE: the compiler makes of generic code for widening bytes some dozens of
// instructions.
#pragma once

#include "kernels/machine_lanes.h"
#include "kernels/weight_blocks.h"

namespace kvc::kernels::KVC_MACHINE {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the blocks are little-endian");

KVC_INLINE float half_at(const uint8_t* bytes) { return static_cast<float>(load<_Float16>(bytes)); }

constexpr Ints kCount = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// A type of block: scales() once a block, then unpack() for its groups of 32.
template <BlockType>
struct Block;

// The low four bits of each lane as a number; the higher ones do not count.
KVC_INLINE Floats low_four(Ints v) {
#if defined(__AVX512F__)
  return pick(Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, v);
#else
  return floats_of(v & 15);
#endif
}

// Codes of five bits, less 16
KVC_INLINE Floats minus_16(Ints codes) {
#if defined(__AVX512F__)
  constexpr Floats kLow = {-16, -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1};
  constexpr Floats kHigh = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return (Floats)_mm512_permutex2var_ps((__m512)kLow, (__m512i)codes, (__m512)kHigh);
#else
  return floats_of(codes - 16);
#endif
}

// 16 bytes of codes: value j in the low half of byte j, value j + 16 in the high one.
KVC_INLINE void half_byte_codes(const uint8_t* bytes, Ints* codes) {
  const Ints v = bytes_at(bytes);
  codes[0] = v & 15, codes[1] = v >> 4;
}

// The low four bits of `low`, and the bits of `high` that `mask` has above them.
KVC_INLINE Ints joined_codes(Ints low, Ints high, int32_t mask) {
#if defined(__AVX512F__)
  return (Ints)_mm512_ternarylogic_epi32((__m512i)(Ints{} + 15), (__m512i)low, (__m512i)high, 0xca) & (15 | mask);
#else
  return (low & 15) | (high & mask);
#endif
}

// To the right by n bits, if n < 0 to the left
KVC_INLINE Ints shifted(Ints v, int32_t n) { return n < 0 ? v << -n : v >> n; }

// Codes of five bits: the low four are those of half_byte_codes, and bit j of the four bytes `fifth_bits` is code j's
// fifth.
KVC_INLINE void five_bit_codes(const uint8_t* fifth_bits, const uint8_t* bytes, Ints* codes) {
  const Ints v = bytes_at(bytes), bits = Ints{} + load<int32_t>(fifth_bits);
#if defined(__AVX512F__)
  const Ints high[2] = {(Ints)_mm512_maskz_rorv_epi32(0xffff, (__m512i)bits, (__m512i)(kCount + 28)),
                        (Ints)_mm512_maskz_rorv_epi32(0xffff, (__m512i)bits, (__m512i)(kCount + 12))};
#else
  const Ints high[2] = {bits >> kCount << 4, bits >> (kCount + 12)};
#endif
  codes[0] = joined_codes(v, high[0], 16), codes[1] = joined_codes(v >> 4, high[1], 16);
}

struct OneScale {
  float d;
};
struct ScaleAndMinimum {
  float d, m;
};

template <>
struct Block<BlockType::q4_0> {
  static constexpr int64_t kValues = 32, kBytes = 18;
  static KVC_INLINE OneScale scales(const uint8_t* block) { return {half_at(block)}; }
  static KVC_INLINE void unpack(const uint8_t* block, const OneScale& scale, int64_t, Floats* out) {
    Ints codes[2];
    half_byte_codes(block + 2, codes);
    for (int s = 0; s < 2; ++s) out[s] = floats_of(codes[s] - 8) * scale.d;
  }
};

template <>
struct Block<BlockType::q4_1> {
  static constexpr int64_t kValues = 32, kBytes = 20;
  static KVC_INLINE ScaleAndMinimum scales(const uint8_t* block) { return {half_at(block), half_at(block + 2)}; }
  static KVC_INLINE void unpack(const uint8_t* block, const ScaleAndMinimum& scale, int64_t, Floats* out) {
    Ints codes[2];
    half_byte_codes(block + 4, codes);
    for (int s = 0; s < 2; ++s) out[s] = floats_of(codes[s]) * scale.d + scale.m;
  }
};

template <>
struct Block<BlockType::q5_0> {
  static constexpr int64_t kValues = 32, kBytes = 22;
  static KVC_INLINE OneScale scales(const uint8_t* block) { return {half_at(block)}; }
  static KVC_INLINE void unpack(const uint8_t* block, const OneScale& scale, int64_t, Floats* out) {
    Ints codes[2];
    five_bit_codes(block + 2, block + 6, codes);
    for (int s = 0; s < 2; ++s) out[s] = minus_16(codes[s]) * scale.d;
  }
};

template <>
struct Block<BlockType::q5_1> {
  static constexpr int64_t kValues = 32, kBytes = 24;
  static KVC_INLINE ScaleAndMinimum scales(const uint8_t* block) { return {half_at(block), half_at(block + 2)}; }
  static KVC_INLINE void unpack(const uint8_t* block, const ScaleAndMinimum& scale, int64_t, Floats* out) {
    Ints codes[2];
    five_bit_codes(block + 4, block + 8, codes);
    for (int s = 0; s < 2; ++s) out[s] = floats_of(codes[s]) * scale.d + scale.m;
  }
};

template <>
struct Block<BlockType::q8_0> {
  static constexpr int64_t kValues = 32, kBytes = 34;
  static KVC_INLINE OneScale scales(const uint8_t* block) { return {half_at(block)}; }
  static KVC_INLINE void unpack(const uint8_t* block, const OneScale& scale, int64_t, Floats* out) {
    for (int s = 0; s < 2; ++s) out[s] = floats_of(signed_bytes_at(block + 2 + 16 * s)) * scale.d;
  }
};

// Of a K block's groups: d sc [0, 8), dmin mn [8, 16).
struct GroupScales {
  float of[16];
};

// 8 scales and 8 minima of 6 bits each in 12 bytes: those of groups 0 to 3 in the low bits of bytes 0 to 7, those of
// groups 4 to 7 four bits in bytes 8 to 11 and two in the high bits of bytes 0 to 7.
KVC_INLINE GroupScales scales_and_minima(const uint8_t* block) {
  const auto a = load<uint32_t>(block + 4), b = load<uint32_t>(block + 8), c = load<uint32_t>(block + 12);
  const auto high = [](uint32_t v) __attribute__((always_inline)) { return v >> 2 & 0x30303030u; };
  const uint32_t codes[4] = {a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | high(a), b & 0x3f3f3f3fu,
                             (c >> 4 & 0x0f0f0f0fu) | high(b)};
  const float d = half_at(block), m = half_at(block + 2);
  const Floats factors = {d, d, d, d, d, d, d, d, m, m, m, m, m, m, m, m};
  const Floats products = floats_of(bytes_at(reinterpret_cast<const uint8_t*>(codes))) * factors;
  GroupScales scales;
  std::memcpy(scales.of, &products, sizeof(products));
  return scales;
}

template <>
struct Block<BlockType::q4_k> {
  static constexpr int64_t kValues = 256, kBytes = 144;
  static KVC_INLINE GroupScales scales(const uint8_t* block) { return scales_and_minima(block); }
  static KVC_INLINE void unpack(const uint8_t* block, const GroupScales& scales, int64_t group, Floats* out) {
    const uint8_t* codes = block + 16 + group / 2 * 32;
    const auto shift = static_cast<int32_t>(group % 2 * 4);
    for (int s = 0; s < 2; ++s) {
      out[s] = low_four(bytes_at(codes + 16 * s) >> shift) * scales.of[group] - scales.of[8 + group];
    }
  }
};

template <>
struct Block<BlockType::q5_k> {
  static constexpr int64_t kValues = 256, kBytes = 176;
  static KVC_INLINE GroupScales scales(const uint8_t* block) { return scales_and_minima(block); }
  static KVC_INLINE void unpack(const uint8_t* block, const GroupScales& scales, int64_t group, Floats* out) {
    const uint8_t *codes = block + 48 + group / 2 * 32, *fifth_bits = block + 16;
    const auto shift = static_cast<int32_t>(group % 2 * 4), bit = static_cast<int32_t>(group);
    for (int s = 0; s < 2; ++s) {
      const Ints fifth = shifted(bytes_at(fifth_bits + 16 * s), bit - 4);
      const Ints code = joined_codes(bytes_at(codes + 16 * s) >> shift, fifth, 16);
      out[s] = floats_of(code) * scales.of[group] - scales.of[8 + group];
    }
  }
};

// Two halves of 128: four low bits of groups 0 and 1 in the low halves of 64 bytes, of groups 2 and 3 in the high ones;
// the two high bits of the four in 32 bytes, group 0's lowest. A scale for each 16 values.
template <>
struct Block<BlockType::q6_k> {
  static constexpr int64_t kValues = 256, kBytes = 210;
  static KVC_INLINE GroupScales scales(const uint8_t* block) {
    const Floats products = floats_of(signed_bytes_at(block + 192)) * half_at(block + 208);
    GroupScales scales;
    std::memcpy(scales.of, &products, sizeof(products));
    return scales;
  }
  static KVC_INLINE void unpack(const uint8_t* block, const GroupScales& scales, int64_t group, Floats* out) {
    const int64_t half = group / 4, quarter = group % 4;
    const uint8_t *low = block + half * 64 + quarter % 2 * 32, *high = block + 128 + half * 32;
    const auto low_shift = static_cast<int32_t>(quarter / 2 * 4), high_shift = static_cast<int32_t>(quarter * 2);
    for (int s = 0; s < 2; ++s) {
      const Ints code =
          joined_codes(bytes_at(low + 16 * s) >> low_shift, shifted(bytes_at(high + 16 * s), high_shift - 4), 48);
      out[s] = floats_of(code - 32) * scales.of[group * 2 + s];
    }
  }
};

// Codes of e2m1 as whole numbers, in the nibbles' places of q4_0, times half of 2^(exponent - 127): the scale of ggml.
template <>
struct Block<BlockType::mxfp4> {
  static constexpr int64_t kValues = 32, kBytes = 17;
  static KVC_INLINE OneScale scales(const uint8_t* block) {
    const uint32_t exponent = *block;  // 2^-128 and 2^-127 are no normal numbers
    return {std::bit_cast<float>(exponent < 2 ? uint32_t{1} << (21 + exponent) : (exponent - 1) << 23)};
  }
  static KVC_INLINE void unpack(const uint8_t* block, const OneScale& scale, int64_t, Floats* out) {
    constexpr Floats kTwice = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    Ints codes[2];
    half_byte_codes(block + 1, codes);
    for (int s = 0; s < 2; ++s) out[s] = pick(kTwice, codes[s]) * scale.d;
  }
};

// Runs body(Block<type>{}).
template <class Body>
KVC_INLINE void for_block_type(BlockType type, const Body& body) {
  switch (type) {
    case BlockType::q4_0:
      return body(Block<BlockType::q4_0>{});
    case BlockType::q4_1:
      return body(Block<BlockType::q4_1>{});
    case BlockType::q5_0:
      return body(Block<BlockType::q5_0>{});
    case BlockType::q5_1:
      return body(Block<BlockType::q5_1>{});
    case BlockType::q8_0:
      return body(Block<BlockType::q8_0>{});
    case BlockType::q4_k:
      return body(Block<BlockType::q4_k>{});
    case BlockType::q5_k:
      return body(Block<BlockType::q5_k>{});
    case BlockType::q6_k:
      return body(Block<BlockType::q6_k>{});
    case BlockType::mxfp4:
      return body(Block<BlockType::mxfp4>{});
  }
}

}  // namespace kvc::kernels::KVC_MACHINE
