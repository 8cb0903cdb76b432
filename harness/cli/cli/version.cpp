#include "cli/version.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "kernels/block_machines.h"
#include "kvc/check.h"

namespace kvc {
namespace {

// Of those that x86-64-v3 and -v4 stand for, the ones that machines differ in.
std::string cpu_features() {
  std::string features;
  const auto add = [&](bool there, const char* name) {
    if (there) features += concat(features.empty() ? "" : " ", name);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512cd"), "avx512cd");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  return features.empty() ? "none" : features;
}

}  // namespace

std::string version_text() {
  return concat(
      "kvc: " KVC_VERSION "\ncommit: ", kCommit,
      "\nLibTorch: " TORCH_VERSION "\nCUDA: " KVC_CUDA_TOOLKIT "\ncompiler: " KVC_COMPILER "\nCPU: ", cpu_features(),
      "\nkernels: ", kernels::block_loops().machine, "\nkernels of LibTorch: ", at::get_cpu_capability());
}

}  // namespace kvc
