#define KVC_MACHINE v3
#include "kernels/block_loops.h"
#include "kernels/block_machines.h"

namespace kvc::kernels {

const BlockLoops kLoopsOfV3 = {"x86-64-v3", v3::expand, v3::multiply};

}  // namespace kvc::kernels
