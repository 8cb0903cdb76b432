#include "wire/child_end.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

#include "contract/stopwatch.h"

namespace kvc {

bool has_exited(pid_t child, double wait_seconds) {
  for (const auto start = Clock::now();;) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
      return true;
    if (seconds_since(start) >= wait_seconds) return false;
    ::poll(nullptr, 0, 10);
  }
}

// The group first: once the child is waited for, its number may be another's.
int reap(pid_t child) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);  // it may have left its group
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace kvc
