#define KVC_MACHINE v4
#include "kernels/block_loops.h"
#include "kernels/block_machines.h"

namespace kvc::kernels {

const BlockLoops kLoopsOfV4 = {"x86-64-v4", v4::expand, v4::multiply};

}  // namespace kvc::kernels
