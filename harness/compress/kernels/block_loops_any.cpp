#define KVC_MACHINE any
#define KVC_NO_TILES
#include "kernels/block_loops.h"
#include "kernels/block_machines.h"

namespace kvc::kernels {

const BlockLoops kLoopsOfAny = {"x86-64", any::expand, any::multiply};

}  // namespace kvc::kernels
