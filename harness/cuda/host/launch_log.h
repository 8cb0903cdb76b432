#pragma once
// What the kernels did that a thread launched, for a count of instructions.

#include <string>
#include <vector>

#include "cuda/host/block.h"

namespace kvc::cuda_emulated {

struct Launch {
  const char* name;     // as KVC_LAUNCH has it
  const void* address;  // of the kernel
  dim3 grid, block;
  // Of all warps of the grid, the most that a lane of the warp did.
  double multiply_adds = 0, products = 0;
};
using LaunchLog = std::vector<Launch>;

// While it lives, this thread's launches are written to the log, and of a row or column of a grid the first and the
// last block run, which stand for those between, or where they differ for their halves: what kernels write is not what
// they should, and a cache that was attended to so is of no more use.
class LogLaunches {
 public:
  explicit LogLaunches(LaunchLog& log);
  ~LogLaunches();
  LogLaunches(const LogLaunches&) = delete;
  LogLaunches& operator=(const LogLaunches&) = delete;
};

// Of a kernel of this process, as nvcc's is called, with its template's arguments and without its parameters and our
// namespaces: "weigh_rows<4, false>"; "" where its file has no symbols.
std::string kernel_symbol(const void* address);

}  // namespace kvc::cuda_emulated

// The log of the thread, if any. Each library with kernels holds a copy of what runs them; they ask the program, which
// has this where it logs.
extern "C" __attribute__((weak, visibility("default"))) kvc::cuda_emulated::LaunchLog* kvc_cuda_launch_log();
