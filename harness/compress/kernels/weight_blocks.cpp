#include "kernels/weight_blocks.h"

#include "kernels/block_machines.h"
#include "kernels/this_machine.h"

namespace kvc::kernels {
namespace {

constexpr BlockLayout kLayouts[] = {
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},  {"Q8_0", 32, 34},
    {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"MXFP4", 32, 17},
};

}  // namespace

const BlockLayout& layout_of(BlockType type) { return kLayouts[static_cast<size_t>(type)]; }

const BlockLoops& block_loops() {
  static const BlockLoops& loops = of_this_machine(kLoopsOfV4, kLoopsOfV3, kLoopsOfAny);
  return loops;
}

void expand_blocks(BlockType type, const uint8_t* blocks, int64_t n_values, float* out) {
  block_loops().expand(type, blocks, n_values, out);
}

}  // namespace kvc::kernels
