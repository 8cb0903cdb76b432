// expand_blocks TYPE: blocks of that type ("Q4_1") on standard input, their values as fp32 on standard output. Driven
// by blocks_parity.py.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <vector>

#include "kernels/weight_blocks.h"

int main(int argc, char** argv) {
  using namespace kvc::kernels;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(std::cin), {}};
  for (auto type = BlockType::q4_0; argc == 2 && type <= kLastBlockType; type = BlockType(int(type) + 1)) {
    const auto& layout = layout_of(type);
    if (layout.name != argv[1]) continue;
    const auto n_values = static_cast<int64_t>(bytes.size()) / layout.n_bytes * layout.n_values;
    std::vector<float> values(static_cast<size_t>(n_values));
    expand_blocks(type, reinterpret_cast<const uint8_t*>(bytes.data()), n_values, values.data());
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
    return 0;
  }
  return std::fprintf(stderr, "usage: expand_blocks Q4_0|Q4_1|Q5_0|Q5_1|Q8_0|Q4_K|Q5_K|Q6_K|MXFP4\n"), 2;
}
