#define KVC_MACHINE any
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"
#include "kernels/rotated_loops.h"
#include "kernels/sign_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfAny = {any::score_tokens,  any::score_channels,     any::accumulate_channels,
                                   any::score_factors, any::accumulate_factors, any::score_rotated_codes,
                                   any::dot_signs};

}  // namespace kvc::kernels
