// Where these tests' kernels run: on the CPU, thread by thread, or on the GPU that KVC_TEST_DEVICE names (cuda:N).
#pragma once

#include <vector>

#include "cuda/attend_codes.h"
#include "tested_kernels.h"

namespace kvc::tested {

bool on_gpu();

// The kernels of that device. Those of attention and products are over when they return.
const cuda_attend::Kernels& attend_kernels();
const cuda_products::Kernels& product_kernels();
const SampleKernels& sample_kernels();
const Instructions& instructions();
void wait();  // until a sample or an instruction is over

// Bytes that the host and the device's kernels both reach, from an address that 64 divides.
void* allocate(size_t bytes);
void give_back(void* memory, size_t bytes);

template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(tested::allocate(n * sizeof(T))); }
  void deallocate(T* memory, size_t n) { give_back(memory, n * sizeof(T)); }
  friend bool operator==(Allocator, Allocator) { return true; }
};
template <class T>
using Vector = std::vector<T, Allocator<T>>;

}  // namespace kvc::tested
