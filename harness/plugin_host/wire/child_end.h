// How a child process that leads its group comes to its end.
#pragma once

#include <sys/types.h>

namespace kvc {

// Whether it has ended, within so many seconds; it stays to be reaped.
bool has_exited(pid_t child, double wait_seconds);

// Ends it and its group, and waits for it. -> its status, as of waitpid
int reap(pid_t child);

}  // namespace kvc
