#define KVC_MACHINE v4
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"
#include "kernels/rotated_loops.h"
#include "kernels/sign_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfV4 = {v4::score_tokens,  v4::score_channels,     v4::accumulate_channels,
                                  v4::score_factors, v4::accumulate_factors, v4::score_rotated_codes,
                                  v4::dot_signs};

}  // namespace kvc::kernels
