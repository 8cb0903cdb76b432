// The loops over codes and factors for the machine that this is.
#pragma once

#include "kernels/code_products.h"
#include "kernels/rotated_products.h"
#include "kernels/this_machine.h"

namespace kvc::kernels {

struct CodeLoops {
  void (*score_token_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*score_channel_groups)(const Codes& k, ConstRows q, Rows scores);
  void (*accumulate_channel_groups)(const Codes& v, ConstRows weights, Rows out);
  void (*score_factors)(const Factors& a, const float* down, float* scores);
  void (*accumulate_factors)(const Factors& a, const float* weights, float* down);
  void (*score_rotated_codes)(const RotatedLayout& layout, const RotatedCodes& k, ConstRows queries, Rows scores);
  void (*dot_signs)(const float* x, int64_t n_words, const int32_t* rows, int64_t n_rows, float* sums);
};

extern const CodeLoops kCodeLoopsOfV4, kCodeLoopsOfV3, kCodeLoopsOfAny;  // as of block_machines.h

inline const CodeLoops& code_loops() {
  static const CodeLoops& loops = of_this_machine(kCodeLoopsOfV4, kCodeLoopsOfV3, kCodeLoopsOfAny);
  return loops;
}

}  // namespace kvc::kernels
