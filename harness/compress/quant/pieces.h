// Quantizing and packing in one pass: a piece of a head's tokens at a time, which the processor's cache holds from its
// floats to its words, so that memory is read and written once.
#pragma once

#include "kvc/quant/group_quant.h"

namespace kvc {

// Writes codes, scales and zeros of x [H, T, D], on the CPU, where `codes` has room for them. False where a scale or
// zero is not finite.
bool quantize_pieces(const at::Tensor& x, const at::Tensor& left_out, GroupCodes& codes);

}  // namespace kvc
