// The loops over codes and factors for the machine that this is.
#pragma once

#include "kernels/code_products.h"
#include "kernels/turned_products.h"

namespace kvc::kernels {

struct CodeLoops {
  void (*score_token_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*score_channel_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*weigh_channel_groups)(const Codes& v, ConstRows weights, Rows out);
  void (*score_factors)(const Factors& a, const float* down, float* scores);
  void (*weigh_factors)(const Factors& a, const float* weights, float* down);
  void (*score_turned_codes)(const TurnedLayout& layout, const TurnedCodes& k, ConstRows queries, Rows scores);
};

extern const CodeLoops kCodeLoopsOfV4, kCodeLoopsOfV3, kCodeLoopsOfAny;  // as of block_machines.h

}  // namespace kvc::kernels
