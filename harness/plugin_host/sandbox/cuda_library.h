// LibTorch's CUDA library: large, so opened only when a CUDA device is used. LibTorch looks for it once, at the first
// query about CUDA, and never again: so no code queries CUDA before it is open (is_cuda_open).
#pragma once

namespace kvc {

// Opens it, where it is not open yet. Throws Error with the system's reason, and where something asked LibTorch about
// CUDA too early.
void open_cuda_library();

bool is_cuda_open();  // by open_cuda_library(), in this process

}  // namespace kvc
