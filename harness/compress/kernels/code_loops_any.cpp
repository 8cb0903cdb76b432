#define KVC_MACHINE any
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"
#include "kernels/turned_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfAny = {any::score_tokens,  any::score_channels, any::weigh_channels,
                                   any::score_factors, any::weigh_factors,  any::score_turned_codes};

}  // namespace kvc::kernels
