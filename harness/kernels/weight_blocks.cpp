#include "kernels/weight_blocks.h"

#include "kernels/unpack_blocks.h"

namespace kvc::kernels {
namespace {

template <BlockType kType>
constexpr BlockLayout layout(std::string_view name) {
  return {name, Block<kType>::kValues, Block<kType>::kBytes};
}

constexpr BlockLayout kLayouts[] = {
    layout<BlockType::q4_0>("Q4_0"), layout<BlockType::q4_1>("Q4_1"), layout<BlockType::q5_0>("Q5_0"),
    layout<BlockType::q5_1>("Q5_1"), layout<BlockType::q8_0>("Q8_0"), layout<BlockType::q4_k>("Q4_K"),
    layout<BlockType::q5_k>("Q5_K"), layout<BlockType::q6_k>("Q6_K"),
};

}  // namespace

const BlockLayout& layout_of(BlockType type) { return kLayouts[static_cast<size_t>(type)]; }

KVC_CLONES void expand_blocks(BlockType type, const uint8_t* blocks, int64_t n_values, float* out) {
  for_block_type(
      type, [&]<BlockType kType>(Block<kType> block) __attribute__((always_inline)) {
        for (int64_t i = 0; i < n_values; i += block.kValues, blocks += block.kBytes) {
          const auto scales = block.scales(blocks);
          for (int64_t j = 0; j < block.kValues; j += 2 * kLanes) {
            Floats steps[2];
            block.unpack(blocks, scales, j / (2 * kLanes), steps);
            std::memcpy(out + i + j, steps, sizeof(steps));
          }
        }
      });
}

}  // namespace kvc::kernels
