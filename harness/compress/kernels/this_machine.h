// Which of three versions is this machine's.
#pragma once

namespace kvc::kernels {

// x86-64-v4: AVX-512, here with its dot products of bytes; x86-64-v3: AVX2, FMA, F16C
template <class T>
const T& of_this_machine(const T& v4, const T& v3, const T& any) {
  const bool dots = __builtin_cpu_supports("avx512vnni");
  return dots && __builtin_cpu_supports("x86-64-v4") ? v4 : __builtin_cpu_supports("x86-64-v3") ? v3 : any;
}

}  // namespace kvc::kernels
