// A device on which the CUDA code runs where there is no GPU: LibTorch's PrivateUse1, whose memory the host cannot
// touch. Kernels (harness/cuda) run on it thread by thread; LibTorch's own operations are computed by the CPU's, on the
// same bytes, and refuse tensors of two devices as CUDA's do. For tests: it says nothing about speed.
#pragma once

#include <c10/core/Device.h>

namespace kvc {

c10::Device emulated_device();  // from the first call on LibTorch knows it

}  // namespace kvc
