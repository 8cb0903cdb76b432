// How a child process that leads its group comes to its end, and what it has started with it.
#pragma once

#include <sys/types.h>

#include <string>

namespace kvc {

// Of main(): from here on orphans of this process's children, whatever group and session they went to, become its own,
// and it ends them: where a child is reaped, and where a signal that would end this process comes. Children that are
// there now are left alone, and so is a process of which this was not said.
void take_on_orphans();

// The name of processes that run compressors for kvc: as orphans they are ended without a word.
inline constexpr const char* kHostName = "kvc-host";

// From here on a child is none of the orphans; and no longer.
void know_child(pid_t child);

// Ends orphans, and those of orphans, until there are none, which is told on standard error.
void end_orphans();

// Of a signal's handler: ends all children and orphans, then this process by that signal.
void end_by(int signal);

// Whether it ended within that many seconds; it still has to be reaped.
bool has_exited(pid_t child, double wait_seconds);

// Of a status, as of waitpid: "killed by signal 6 (Aborted)", "ended with exit code 3".
std::string said_of_status(int status);

// Ends it and its group, waits for it, and ends the processes that it leaves running. -> its status, as of waitpid
int reap(pid_t child);

}  // namespace kvc
