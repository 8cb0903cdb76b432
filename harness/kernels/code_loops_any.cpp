#define KVC_MACHINE any
#include "kernels/code_loops.h"
#include "kernels/factor_loops.h"

namespace kvc::kernels {

const CodeLoops kCodeLoopsOfAny = {any::score_token_groups_of, any::score_channel_groups_of,
                                   any::weigh_channel_groups_of, any::score_factors, any::weigh_factors};

}  // namespace kvc::kernels
