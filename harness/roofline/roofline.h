// The least time of what a GPU is to do: bytes over its memory's bandwidth or instructions over what it can issue,
// whichever is longer. Predictions from data sheets and compiled kernels (harness/cuda/gpus.tsv, kernels.tsv): nothing
// of them was measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

struct Gpu {
  std::string name;
  int64_t multiprocessors = 0;
  double ghz = 0, gb_a_second = 0;
  std::string architecture;  // whose code of kernels.tsv it runs
};

std::vector<std::string> gpu_names();
Gpu gpu_named(const std::string& name);  // throws Error that names those known

// Of one kernel's launches: multiply-adds of warps, and products of their matrices on tensor cores.
struct KernelCounts {
  std::string symbol;
  double multiply_adds = 0, products = 0;
};

// Instructions of warps that these kernels issue for their multiply-adds, by those of the loops that do them; nothing
// where a kernel has some and is not in kernels.tsv.
std::optional<double> instructions_of(const std::vector<KernelCounts>& kernels, const std::string& architecture);

struct LeastTime {
  double by_bytes = 0;               // seconds
  std::optional<double> by_issuing;  // nothing: not known
  double least() const;
  bool is_bound_by_bytes() const { return !by_issuing || by_bytes >= *by_issuing; }
};
LeastTime least_time(const Gpu& gpu, double bytes, std::optional<double> instructions);

}  // namespace kvc
