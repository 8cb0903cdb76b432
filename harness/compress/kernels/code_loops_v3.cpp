#define KVC_MACHINE v3
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"
#include "kernels/turned_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfV3 = {v3::score_tokens,  v3::score_channels, v3::weigh_channels,
                                  v3::score_factors, v3::weigh_factors,  v3::score_turned_codes};

}  // namespace kvc::kernels
