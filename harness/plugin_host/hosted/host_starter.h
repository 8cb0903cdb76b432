// How hosts are started: those of shared libraries as forks of one `kvc host`, those in Python by their interpreter.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>

namespace kvc {

using HostFds = std::array<int, 3>;  // control, inputs, outputs

// Throws Error. -> the process
pid_t start_host(const HostFds& fds);
pid_t start_python_host(const std::string& python, const HostFds& fds);

// Ends a process of either and waits for it. -> its status, as of waitpid
int end_host(pid_t pid);
int end_python_host(pid_t pid);

}  // namespace kvc
