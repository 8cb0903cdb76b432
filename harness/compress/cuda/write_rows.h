// What caches write in a decode step on a device: one launch for the writes of all sequences. The kernel is in
// write_rows.cuh.
#pragma once

#include <span>

#include "kvc/device_write.h"

namespace kvc::cuda_writes {

// stream: a cudaStream_t. Writes of one call touch different bytes and read none that another one writes.
using WriteRows = void (*)(std::span<const DeviceWrite> writes, void* stream);

}  // namespace kvc::cuda_writes

namespace kvc::cuda {
void write_rows(std::span<const DeviceWrite> writes, void* stream);  // where nvcc compiled it (KVC_HAVE_CUDA)
}
namespace kvc::cuda_emulated {
void write_rows(std::span<const DeviceWrite> writes, void* stream);
}

namespace kvc::cuda_writes {

inline WriteRows write_rows_of([[maybe_unused]] bool is_cuda) {
#ifdef KVC_HAVE_CUDA
  if (is_cuda) return cuda::write_rows;
#endif
  return cuda_emulated::write_rows;
}

}  // namespace kvc::cuda_writes
