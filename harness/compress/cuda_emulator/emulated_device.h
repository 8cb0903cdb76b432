// A device on which the CUDA code runs where there is no GPU: LibTorch's PrivateUse1, whose memory the host cannot
// touch. Kernels (room cuda) run on it thread by thread; LibTorch's own operations are computed by the CPU's, on the
// same bytes, and refuse tensors of two devices as CUDA's do. For tests: it says nothing about speed.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace kvc {

c10::Device emulated_device();  // from the first call on LibTorch knows it

// How often the host asked for what the device holds since the program began: copies to it, numbers, and results whose
// size depends on values. On a GPU it would have waited each time.
int64_t n_reads_of_emulated_device();

// How many kernels a GPU would have run since the program began, about: launches of our own, copies, and operations of
// LibTorch, each counted as one kernel. Views and memory count nothing.
int64_t n_kernels_of_emulated_device();

}  // namespace kvc
