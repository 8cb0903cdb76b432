// The CUDA half of LibTorch: large, opened only for those who ask for it. LibTorch looks for it once, at the first
// question about CUDA, and takes no for an answer ever after: so nothing asks before it is open (is_cuda_open).
#pragma once

namespace kvc {

// Opens it, where it is not open yet. Throws Error with the system's reason, and where something asked LibTorch about
// CUDA too early.
void open_cuda_library();

bool is_cuda_open();  // by open_cuda_library(), in this process

}  // namespace kvc
