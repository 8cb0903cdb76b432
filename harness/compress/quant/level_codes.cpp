#include "kvc/quant/level_codes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

#include "kvc/quant/small_floats.h"

namespace kvc {
at::Tensor from_e8m0(const at::Tensor& codes) {
  if (!codes.is_cpu()) {  // 0: a number below the smallest exponent, half a fraction
    return codes.to(at::kInt).bitwise_left_shift_(23).masked_fill_(codes.eq(0), 1 << 22).view(at::kFloat);
  }
  const auto in = codes.contiguous();
  auto powers = at::empty(in.sizes(), at::kFloat);
  const auto* code = in.const_data_ptr<uint8_t>();
  std::transform(code, code + in.numel(), powers.data_ptr<float>(),
                 [](uint8_t byte) { return byte == 0 ? 0x1p-127f : std::bit_cast<float>(uint32_t{byte} << 23); });
  return powers;
}

at::Tensor LevelCodes::scales() const {
  const bool bytes = scale.scalar_type() == at::kByte;
  const auto floats = !bytes                           ? scale.to(at::kFloat)
                      : byte_scale == NumberType::e4m3 ? from_e4m3(scale)
                                                       : from_e8m0(scale);
  const auto by = factor == 1 ? floats : floats * factor;
  return global.defined() ? by * global : by;
}

LevelCodes LevelCodes::tokens(int64_t first, int64_t n) const {
  LevelCodes part = *this;
  part.codes = codes.narrow(1, first, n).contiguous();
  if (scale.size(1) > 1) part.scale = scale.narrow(1, first, n).contiguous();
  return part;
}

at::Tensor LevelCodes::dequantize() const {
  if (!book.levels) return from_float8(floats, codes).mul_(scales());
  auto steps = scales();
  if (steps.size(1) == 1) steps = steps.expand({codes.size(0), n_tokens(), steps.size(2)}).contiguous();
  return decode_groups(codes, head_dim, book, steps, {}, head_dim / steps.size(2));
}

}  // namespace kvc
