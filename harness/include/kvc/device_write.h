// What a kernel writes for a cache in a decode step (kvc/step_writes.h). Plain C++, no LibTorch.
#pragma once

#include <cstdint>

#include "kvc/quant/stored_numbers.h"

namespace kvc {

// Rows of [n_heads, n_tokens, width] on a device: strides in numbers, those of a row next to one another.
struct DeviceRows {
  void* data = nullptr;
  NumberType type = NumberType::f32;
  int64_t head_stride = 0, token_stride = 0;
};

// How a block of 16 or 32 numbers x becomes codes and a scale d, which is stored rounded and encoded with unrounded:
enum class BlockRule : int {
  by_maximum,    // d = max |x| / 127, codes x / d + 127, half away from zero, of 8 bits
  centred,       // d = -(x of largest |x|) / 2^(b-1), codes floor(x / d + 2^(b-1) + 1/2)
  from_minimum,  // d = (max - min) / (2^b - 1), codes floor((x - min) / d + 1/2); the minimum is stored, too
  e2m1_e8m0,     // floats e2m1 of x / d, d a power of two (OCP MX)
  e2m1_e4m3,     // floats e2m1 of x / d, d = an e4m3 number times `global`, so that max |x| becomes 6 (NVFP4)
};

struct DeviceWrite {
  enum class What : int {
    bytes,     // as they are; from no data: `fill` in each. Strides and width are in bytes
    numbers,   // converted, times factor; into no data: only checked
    channels,  // codes of groups along the channels of a token (kvc/quant/group_quant.h)
    tokens,    // codes of groups along the tokens of a channel, in tiles
    blocks,    // codes of blocks along the channels of a token, by `rule`
    floats8,   // `floats` of number / scale, a byte each, saturated; scale: fp32, one a head (head_stride 0: for all)
  };
  What what = What::bytes;
  DeviceRows from = {}, to = {};
  int n_heads = 0, n_tokens = 0, width = 0;
  int fill = 0;
  float factor = 1;

  // Codes of integers: `to` are words of 32 bits. tokens: token_stride is not used, a head's tiles are next to one another.
  DeviceRows scale = {}, zero = {};  // zero without data: symmetric
  int bits = 0, group_size = 0;
  Float8 floats = Float8::e4m3;
  bool merge_heads = false;  // one group over all heads of a token

  // Blocks: group_size 16 or 32, width a multiple of it; `to` are words of codes of 4 or 8 bits, of 5 bits the lower four;
  // scale and zero bytes or fp16.
  BlockRule rule = BlockRule::by_maximum;
  DeviceRows high = {};           // of 5 bits: words of the highest bit of each
  const float* global = nullptr;  // of e2m1_e4m3

  // Null, or [n_blocks]: whether all numbers that are written (of codes: scales and zeros) are finite.
  bool* holds = nullptr;
  int n_blocks = 1;  // that share it; of codes along channels and of bytes with `holds` always 1
};

}  // namespace kvc
