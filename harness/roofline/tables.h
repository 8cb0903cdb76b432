// The tables of harness/cuda as the build has them.
#pragma once

#include <string_view>

namespace kvc {

std::string_view gpus_tsv();
std::string_view kernels_tsv();

}  // namespace kvc
