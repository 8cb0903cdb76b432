// The loops over codes that this machine can run.
#pragma once

#include <string>
#include <vector>

#include "kernels/code_machines.h"

namespace kvc::kernels {

inline std::vector<const CodeLoops*> machines() {
  std::vector<const CodeLoops*> machines = {&kCodeLoopsOfAny};
  if (__builtin_cpu_supports("x86-64-v3")) machines.push_back(&kCodeLoopsOfV3);
  if (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni")) machines.push_back(&kCodeLoopsOfV4);
  return machines;
}

inline std::string machine_name(const CodeLoops* loops) {
  return loops == &kCodeLoopsOfAny ? "Any" : loops == &kCodeLoopsOfV3 ? "V3" : "V4";
}

}  // namespace kvc::kernels
