// Which of three versions is this machine's.
#pragma once

namespace kvc::kernels {

// x86-64-v4: AVX-512; x86-64-v3: AVX2, FMA, F16C
template <class T>
const T& of_this_level(const T& v4, const T& v3, const T& any) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return v4;
  if (__builtin_cpu_supports("x86-64-v3")) return v3;
#endif
  return any;
}

// The same where v4 takes its dot products of bytes as well.
template <class T>
const T& of_this_machine(const T& v4, const T& v3, const T& any) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return of_this_level(v4, v3, any);
#endif
  return of_this_level(v3, v3, any);
}

}  // namespace kvc::kernels
