#define KVC_MACHINE v3
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"
#include "kernels/rotated_loops.h"
#include "kernels/sign_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfV3 = {v3::score_tokens,  v3::score_channels,     v3::accumulate_channels,
                                  v3::score_factors, v3::accumulate_factors, v3::score_rotated_codes,
                                  v3::dot_signs};

}  // namespace kvc::kernels
