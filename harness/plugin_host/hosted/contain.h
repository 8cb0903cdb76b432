// What the kernel refuses a host: files, sockets, processes, signals to others. No LibTorch, so that Python loads it, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

enum class Stage : uint8_t {
  loading,    // code of the compressor begins to run: files may be read, threads started
  computing,  // and no file opened
};

// Files below these folders, and these files, may be read from here on, no others; nothing may be written. By Landlock,
// of this thread and those that it starts. -> false where the kernel has no Landlock
bool allow_reading(const std::vector<std::string>& paths);

// Of this process, for good: a system call that is not of the stage ends it, and 1 + the call's number is put to `refused`
// before. By seccomp. Threads may be started; processes may not. Throws Error where the kernel has no seccomp.
void contain(Stage stage, uint32_t* refused);

std::string system_call_name(int number);  // "socket"

// Resource limits of this process: no core files, 256 descriptors, memory_bytes of private memory (0: any number).
void set_limits(int64_t memory_bytes);

}  // namespace kvc
