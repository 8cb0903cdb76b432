// The loops over codes and factors for the machine that this is.
#pragma once

#include "kernels/code_products.h"
#include "kernels/rotated_products.h"

namespace kvc::kernels {

struct CodeLoops {
  void (*score_token_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*score_channel_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*accumulate_channel_groups)(const Codes& v, ConstRows weights, Rows out);
  void (*score_factors)(const Factors& a, const float* down, float* scores);
  void (*accumulate_factors)(const Factors& a, const float* weights, float* down);
  void (*score_rotated_codes)(const RotatedLayout& layout, const RotatedCodes& k, ConstRows queries, Rows scores);
};

extern const CodeLoops kCodeLoopsOfV4, kCodeLoopsOfV3, kCodeLoopsOfAny;  // as of block_machines.h

}  // namespace kvc::kernels
