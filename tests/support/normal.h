#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace kvc::test {

// Normal numbers in fp32, the same for a seed whatever was drawn before.
inline at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

}  // namespace kvc::test
