// Copies, conversions and codes of a few rows each, of many caches.
//
// Grid      (blocks of the write that has most, writes); a write with fewer leaves blocks without work
// channels  a warp a group for its smallest and largest number, then a thread a word of codes
// blocks    a lane a number, whose warp finds the block's extremes and puts words together
// tokens    a thread a group of a channel, neighbours in neighbouring channels, which a read of 32 of them coalesces
// Bound by  latency: a step writes some kilobytes a sequence
// Codes are those of quantize_groups_reference(), bit by bit: the scale is rounded first, and codes are quotients by it.
#pragma once

#include "cuda/numbers.cuh"
#include "cuda/write_rows.h"

namespace kvc::KVC_DEVICE {

constexpr int kMostWrites = 128;  // of one launch, whose arguments are passed by value
constexpr int kWriteTile = 16;    // entries of a tile
constexpr float kLargestFloat = 3.402823466e38f;

struct RowsArgument {
  gmem_ptr<unsigned char> data;
  int64_t head_stride, token_stride;
  NumberType type;
};

struct WriteArgument {
  RowsArgument from, to, scale, zero, high;
  gmem_ptr<const float> global;
  gmem_ptr<unsigned char> holds;
  int n_heads, n_tokens, width;
  float factor;
  int fill, bits, group_size, n_blocks;
  DeviceWrite::What what;
  Float8 floats;
  BlockRule rule;
  bool has_from, has_to, has_zero, has_holds, merge_heads;
};

struct WriteTable {
  WriteArgument of[kMostWrites];
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= kLargestFloat; }

// The place of number `column` of token `token` of head `head`.
__device__ __forceinline__ int64_t place_in(const RowsArgument& x, int head, int token, int64_t column) {
  return head * x.head_stride + token * x.token_stride + column;
}

// f(head, token, column) of this block's share of all numbers, a thread a number.
template <class F>
__device__ __forceinline__ void for_each_number(const WriteArgument& w, F f) {
  const int64_t n = static_cast<int64_t>(w.n_heads) * w.n_tokens * w.width;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += w.n_blocks * kThreads) {
    const int64_t row = i / w.width;
    f(static_cast<int>(row / w.n_tokens), static_cast<int>(row % w.n_tokens), static_cast<int>(i % w.width));
  }
}

__device__ __forceinline__ void write_bytes(const WriteArgument& w) {
  for_each_number(w, [&](int head, int token, int column) {
    unsigned char byte = static_cast<unsigned char>(w.fill);
    if (w.has_from) byte = w.from.data[place_in(w.from, head, token, column)];
    w.to.data[place_in(w.to, head, token, column)] = byte;
  });
}

// -> whether this thread met a number that is not finite
__device__ __forceinline__ bool write_numbers(const WriteArgument& w) {
  bool bad = false;
  for_each_number(w, [&](int head, int token, int column) {
    float x = number_of(w.from.data, w.from.type, place_in(w.from, head, token, column)) * w.factor;
    if (w.has_to) x = put_number(w.to.data, w.to.type, place_in(w.to, head, token, column), x);
    bad = bad || !is_finite(x);
  });
  return bad;
}

__device__ __forceinline__ void write_floats8(const WriteArgument& w) {
  for_each_number(w, [&](int head, int token, int column) {
    const float x = number_of(w.from.data, w.from.type, place_in(w.from, head, token, column));
    const float by = number_of(w.scale.data, w.scale.type, head * w.scale.head_stride);
    w.to.data[place_in(w.to, head, token, column)] = static_cast<unsigned char>(float8_of(w.floats, x / by));
  });
}

// What a group's numbers have in common.
struct Group {
  float low = kLargestFloat, high = -kLargestFloat, top = 0.0f;  // top: the largest magnitude
  bool bad = false;
  __device__ __forceinline__ void add(float x) {
    low = fminf(low, x), high = fmaxf(high, x), top = fmaxf(top, fabsf(x));
    bad = bad || !is_finite(x);
  }
};

__device__ __forceinline__ Group group_of_warp(Group x) {
  for (int apart = 16; apart > 0; apart /= 2) {
    x.low = fminf(x.low, __shfl_xor_sync(0xffffffffu, x.low, apart));
    x.high = fmaxf(x.high, __shfl_xor_sync(0xffffffffu, x.high, apart));
    x.top = fmaxf(x.top, __shfl_xor_sync(0xffffffffu, x.top, apart));
  }
  return x;
}

__device__ __forceinline__ float largest_code(const WriteArgument& w) {
  return static_cast<float>(w.has_zero ? (1 << w.bits) - 1 : (1 << (w.bits - 1)) - 1);
}

// Stores scale and zero at `place` of theirs. -> whether they are finite
__device__ __forceinline__ bool put_scale(const WriteArgument& w, const Group& group, int64_t place) {
  const float largest = largest_code(w);
  if (!w.has_zero) {
    const float scale = group.top == 0.0f ? 0.0f : fmaxf(group.top, 1e-5f) / largest;
    return is_finite(put_number(w.scale.data, w.scale.type, place, scale)) && !group.bad;
  }
  const bool zero = is_finite(put_number(w.zero.data, w.zero.type, place, group.low));
  return is_finite(put_number(w.scale.data, w.scale.type, place, (group.high - group.low) / largest)) && zero &&
         !group.bad;
}

// As it was stored at `place`.
struct ScaleZero {
  float scale, zero;
};
__device__ __forceinline__ ScaleZero stored_scale(const WriteArgument& w, int64_t place) {
  return {number_of(w.scale.data, w.scale.type, place), w.has_zero ? number_of(w.zero.data, w.zero.type, place) : 0.0f};
}

__device__ __forceinline__ unsigned code_of(const WriteArgument& w, float x, ScaleZero by) {
  const float largest = largest_code(w), quotient = (x - by.zero) / by.scale;
  if (!w.has_zero) {
    const float code = by.scale == 0.0f ? 0.0f : fminf(fmaxf(rintf(quotient), -largest), largest);
    return static_cast<unsigned>(code + largest);
  }
  return by.scale == 0.0f ? 0u : static_cast<unsigned>(rintf(fminf(fmaxf(quotient, 0.0f), largest)));
}

// The word whose first bit is bit 32 word of a row of n codes; code(i): code i of the row.
template <class F>
__device__ __forceinline__ unsigned word_of(int bits, int n, int word, F code) {
  unsigned result = 0;
  for (int i = word * 32 / bits; i < n && i * bits < (word + 1) * 32; ++i) {
    const unsigned its = code(i);
    const int shift = i * bits - word * 32;
    result |= shift < 0 ? its >> -shift : its << shift;
  }
  return result;
}

__device__ __forceinline__ bool write_channels(const WriteArgument& w) {
  const int per_row = w.merge_heads ? 1 : w.width / w.group_size, n_rows = w.n_heads * w.n_tokens;
  const int n_groups = w.merge_heads ? w.n_tokens : n_rows * per_row, lane = threadIdx.x % 32;
  const int n_in_group = w.merge_heads ? w.n_heads * w.width : w.group_size;
  const auto number = [&](int head, int token, int column) {
    return number_of(w.from.data, w.from.type, place_in(w.from, head, token, column));
  };
  bool bad = false;
  for (int i = threadIdx.x / 32; i < n_groups; i += kThreads / 32) {  // i: a group of token i % n_tokens, in all heads
    const int token = i % w.n_tokens, of_token = i / w.n_tokens;
    const int head = w.merge_heads ? 0 : of_token / per_row, in_row = w.merge_heads ? 0 : of_token % per_row;
    Group group;
    for (int j = lane; j < n_in_group; j += 32) {
      if (w.merge_heads) {
        group.add(number(j / w.width, token, j % w.width));
      } else {
        group.add(number(head, token, in_row * w.group_size + j));
      }
    }
    bad = bad || group.bad;
    const Group all = group_of_warp(group);
    if (lane == 0) bad = !put_scale(w, all, place_in(w.scale, head, token, in_row)) || bad;
  }
  __syncthreads();
  const int n_words = (w.width * w.bits + 31) / 32;
  for (int i = threadIdx.x; i < n_rows * n_words; i += kThreads) {
    const int word = i % n_words, row = i / n_words, head = row / w.n_tokens, token = row % w.n_tokens;
    const unsigned codes = word_of(w.bits, w.width, word, [&](int column) {
      const int64_t place =
          w.merge_heads ? place_in(w.scale, 0, token, 0) : place_in(w.scale, head, token, column / w.group_size);
      return code_of(w, number(head, token, column), stored_scale(w, place));
    });
    pointer_cast<unsigned>(w.to.data)[place_in(w.to, head, token, word)] = codes;
  }
  return bad;
}

// The index of entry `i` of row `row` in a head's n_rows rows of `length` entries, stored in tiles.
__device__ __forceinline__ int64_t place_in_tiles(int n_rows, int length, int row, int i) {
  const int tile = i / kWriteTile, rest = length - tile * kWriteTile, width = rest < kWriteTile ? rest : kWriteTile;
  return static_cast<int64_t>(n_rows) * tile * kWriteTile + static_cast<int64_t>(row) * width + i % kWriteTile;
}

// Groups begin at whole words.
__device__ __forceinline__ bool write_tokens(const WriteArgument& w) {
  const int n_groups = w.n_tokens / w.group_size, n_words = (w.n_tokens * w.bits + 31) / 32;
  bool bad = false;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < w.n_heads * n_groups * w.width; i += w.n_blocks * kThreads) {
    const int channel = i % w.width, head = i / w.width / n_groups, in_row = i / w.width % n_groups;
    const int first = in_row * w.group_size;
    const auto number = [&](int token) {
      return number_of(w.from.data, w.from.type, place_in(w.from, head, token, channel));
    };
    Group group;
    for (int t = first; t < first + w.group_size; ++t) group.add(number(t));
    const int64_t place = head * w.scale.head_stride + place_in_tiles(w.width, n_groups, channel, in_row);
    bad = !put_scale(w, group, place) || bad;
    const ScaleZero by = stored_scale(w, place);
    const int end = ((first + w.group_size) * w.bits + 31) / 32;
    for (int word = first * w.bits / 32; word < end; ++word) {
      const unsigned codes =
          word_of(w.bits, w.n_tokens, word, [&](int token) { return code_of(w, number(token), by); });
      const int64_t to = head * w.to.head_stride + place_in_tiles(w.width, n_words, channel, word);
      pointer_cast<unsigned>(w.to.data)[to] = codes;
    }
  }
  return bad;
}

// A block's number x, each lane one: its code. Stores scale and minimum at `place`; sets bad if one is not finite.
__device__ __forceinline__ unsigned block_code(const WriteArgument& w, float x, float top, Group all, int64_t place,
                                               bool first, bool& bad) {
  const auto put_step = [&](float d) {
    if (first) bad = !is_finite(put_number(w.scale.data, w.scale.type, place, d)) || bad;
  };
  const auto inverse = [](float d) { return d == 0.0f ? 0.0f : 1.0f / d; };
  const float most = static_cast<float>((1 << w.bits) - 1), middle = static_cast<float>(1 << (w.bits - 1));
  if (w.rule == BlockRule::by_maximum) {
    const float d = all.top / 127.0f, quotient = __fmul_rn(x, inverse(d)),
                size = floorf(__fadd_rn(fabsf(quotient), 0.5f));
    put_step(d);
    return static_cast<unsigned>((quotient < 0.0f ? -size : size) + 127.0f);
  }
  if (w.rule == BlockRule::centred) {
    const float d = top / -middle;
    put_step(d);
    return static_cast<unsigned>(fminf(fmaxf(floorf(__fadd_rn(__fmul_rn(x, inverse(d)), middle + 0.5f)), 0.0f), most));
  }
  if (w.rule == BlockRule::from_minimum) {
    const float d = (all.high - all.low) / most;
    put_step(d);
    if (first) bad = !is_finite(put_number(w.zero.data, w.zero.type, place, all.low)) || bad;
    return static_cast<unsigned>(fminf(fmaxf(floorf(__fadd_rn(__fmul_rn(x - all.low, inverse(d)), 0.5f)), 0.0f), most));
  }
  unsigned scale = 0;
  float step = 0.0f;
  if (w.rule == BlockRule::e2m1_e8m0) {
    const int exponent = static_cast<int>(__float_as_uint(all.top) >> 23);
    scale = static_cast<unsigned>(max(exponent - 2, 0));  // e2m1's largest power of two is 2^2
    step = __uint_as_float(scale == 0u ? 0x00400000u : scale << 23);
  } else {
    const float global = w.global[0];
    scale = float8_of(Float8::e4m3, all.top / __fmul_rn(global, 6.0f));
    step = __fmul_rn(float_of_e4m3(scale), global);
  }
  if (first) w.scale.data[place] = static_cast<unsigned char>(scale);
  return e2m1_of(step == 0.0f ? 0.0f : x / step);
}

// A lane a number: a warp a block of 32, or two of 16.
__device__ __forceinline__ bool write_blocks(const WriteArgument& w) {
  const int n_rows = w.n_heads * w.n_tokens, lane = threadIdx.x % 32, in_block = lane % w.group_size;
  const int low_bits = w.bits == 5 ? 4 : w.bits, of_word = 32 / low_bits, n_runs = (w.width + 31) / 32;
  bool bad = false;
  for (int i = threadIdx.x / 32; i < n_rows * n_runs; i += kThreads / 32) {
    const int row = i / n_runs, head = row / w.n_tokens, token = row % w.n_tokens, column = i % n_runs * 32 + lane;
    const bool there = column < w.width;  // of the last 16 of a row only half a warp
    float x = 0.0f;
    if (there) x = number_of(w.from.data, w.from.type, place_in(w.from, head, token, column));
    Group all;
    all.add(x);
    float top = x;
    int where = in_block;
    for (int apart = w.group_size / 2; apart > 0; apart /= 2) {
      all.low = fminf(all.low, __shfl_xor_sync(0xffffffffu, all.low, apart));
      all.high = fmaxf(all.high, __shfl_xor_sync(0xffffffffu, all.high, apart));
      all.top = fmaxf(all.top, __shfl_xor_sync(0xffffffffu, all.top, apart));
      const float other = __shfl_xor_sync(0xffffffffu, top, apart);
      const int others = __shfl_xor_sync(0xffffffffu, where, apart);
      if (fabsf(other) > fabsf(top) || (fabsf(other) == fabsf(top) && others < where)) top = other, where = others;
    }
    bad = bad || all.bad;
    unsigned code = 0;
    if (there) {
      code = block_code(w, x, top, all, place_in(w.scale, head, token, column / w.group_size), in_block == 0, bad);
    }
    unsigned word = (code & ((1u << low_bits) - 1u)) << lane % of_word * low_bits;
    for (int apart = 1; apart < of_word; apart *= 2) word |= __shfl_xor_sync(0xffffffffu, word, apart);
    const unsigned highest = __ballot_sync(0xffffffffu, (code >> 4 & 1u) != 0u);
    if (there && lane % of_word == 0) {
      pointer_cast<unsigned>(w.to.data)[place_in(w.to, head, token, column / of_word)] = word;
    }
    if (w.bits == 5 && lane == 0)
      pointer_cast<unsigned>(w.high.data)[place_in(w.high, head, token, column / 32)] = highest;
  }
  return bad;
}

__global__ void __launch_bounds__(kThreads, 8) write_all(KVC_GRID_CONSTANT(WriteTable, writes)) {
  const WriteArgument& w = writes.of[blockIdx.y];
  if (static_cast<int>(blockIdx.x) >= w.n_blocks) return;
  bool bad = false;
  if (w.what == DeviceWrite::What::bytes) {
    write_bytes(w);
  } else if (w.what == DeviceWrite::What::numbers) {
    bad = write_numbers(w);
  } else if (w.what == DeviceWrite::What::floats8) {
    write_floats8(w);
  } else if (w.what == DeviceWrite::What::blocks) {
    bad = write_blocks(w);
  } else if (w.what == DeviceWrite::What::channels) {
    bad = write_channels(w);
  } else {
    bad = write_tokens(w);
  }
  if (!w.has_holds) return;
  const int any = __syncthreads_or(bad);
  if (threadIdx.x == 0) w.holds[blockIdx.x] = any == 0;
}

}  // namespace kvc::KVC_DEVICE
