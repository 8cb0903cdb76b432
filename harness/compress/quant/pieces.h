// Quantizing and packing in one pass: a piece of a head's tokens at a time, which the processor's cache holds from its
// floats to its words, so that memory is read and written once.
#pragma once

#include "kvc/quant/group_quant.h"

namespace kvc {

// Writes codes, scales and zeros of x [H, T, D], on the CPU, where `codes` has room for them. False where a scale or
// zero is not finite.
bool quantize_pieces(const at::Tensor& x, const at::Tensor& left_out, GroupCodes& codes);

// The entries of a group. Throws Error if they do not divide x's axis.
int64_t group_length(const at::Tensor& x, const GroupFormat& format);

// Memory for the codes of x [H, T, D], on its device.
GroupCodes codes_for(const at::Tensor& x, const GroupFormat& format, int64_t group);

}  // namespace kvc
