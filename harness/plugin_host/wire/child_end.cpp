#include "wire/child_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "contract/stopwatch.h"
#include "kvc/check.h"

namespace kvc {
namespace {

constexpr int kMost = 1024;           // children that are known, and that are looked at together
constexpr double kSecondsToEnd = 10;  // for which orphans are ended that start others faster than they end
constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};

// All of this is read by signal handlers.
std::atomic<bool> takes_on = false;
std::atomic<pid_t> taker = 0;     // a fork of it has other children
std::atomic<pid_t> known[kMost];  // 0: a free place
pid_t earlier[kMost];             // that were there first
int n_earlier = 0;

// Orphans go to the first thread, whose children these are. -> how many
int children_now(pid_t* children) {
  char path[64], text[16 * kMost];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/children", static_cast<int>(::getpid()));
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t n_bytes = 0;
  for (ssize_t n; (n = ::read(file, text + n_bytes, sizeof text - static_cast<size_t>(n_bytes))) > 0;) n_bytes += n;
  ::close(file);
  int n = 0;
  pid_t pid = 0;
  for (ssize_t i = 0; i < n_bytes && n < kMost; ++i) {
    if (text[i] >= '0' && text[i] <= '9') {
      pid = 10 * pid + (text[i] - '0');
    } else if (pid > 0) {
      children[n++] = std::exchange(pid, 0);
    }
  }
  return n;
}

bool is_earlier(pid_t pid) { return std::find(earlier, earlier + n_earlier, pid) != earlier + n_earlier; }
bool is_known(pid_t pid) {
  return std::any_of(std::begin(known), std::end(known), [pid](const auto& each) { return each.load() == pid; });
}

// Not one that has ended already, nor one that kvc started itself, which ends with its parent (hosted/host_starter.h).
bool is_left_running(pid_t pid) {
  char path[64], text[64] = {};
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const auto n = ::read(file, text, sizeof text - 1);  // "1234 (name) S ..."
  ::close(file);
  const char* name = n > 0 ? std::strchr(text, '(') : nullptr;
  const char* end = name ? std::strrchr(text, ')') : nullptr;
  if (!end || end[1] == 0 || end[2] == 'Z') return false;
  return std::strncmp(name + 1, kHostName, std::strlen(kHostName)) != 0;
}

// -> how many have ended; left: some are still there
int end_children(bool known_too, bool& left) {
  int n_ended = 0;
  timespec start{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    left = false;
    pid_t children[kMost];
    const int n = children_now(children);
    for (int i = 0; i < n; ++i) {
      if (is_earlier(children[i]) || (!known_too && is_known(children[i]))) continue;
      if (is_left_running(children[i])) ++n_ended;
      ::kill(children[i], SIGKILL);
      left = true;
    }
    for (int i = 0; i < n && left; ++i) {
      if (is_earlier(children[i]) || is_known(children[i])) continue;  // those are waited for by name
      ::waitpid(children[i], nullptr, WNOHANG);
    }
    if (left) ::sched_yield();
    ::clock_gettime(CLOCK_MONOTONIC, &now);
  } while (left && now.tv_sec - start.tv_sec < (known_too ? 1 : kSecondsToEnd));
  return n_ended;
}

}  // namespace

void take_on_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return;  // a kernel before Linux 3.4
  n_earlier = children_now(earlier);
  taker = ::getpid();
  takes_on = true;
  for (const int signal : kEnding) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;  // as nohup leaves it
    action.sa_handler = end_by;
    ::sigaction(signal, &action, nullptr);
  }
}

void know_child(pid_t child) {
  for (auto& each : known) {
    pid_t none = 0;
    if (each.compare_exchange_strong(none, child)) return;
  }
}

void end_orphans() {
  if (!takes_on || taker != ::getpid()) return;
  bool left = false;
  const int n = end_children(false, left);
  if (n > 0) std::fprintf(stderr, "ended %d process%s that a plugin had left running\n", n, n == 1 ? "" : "es");
  if (left) std::fprintf(stderr, "processes that a plugin started go on: they start others faster than they end\n");
}

void end_by(int signal) {
  bool left = false;
  if (takes_on && taker == ::getpid()) end_children(true, left);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

bool has_exited(pid_t child, double wait_seconds) {
  for (const auto start = Clock::now();;) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0)
      return true;
    if (seconds_since(start) >= wait_seconds) return false;
    ::poll(nullptr, 0, 10);
  }
}

std::string said_of_status(int status) {
  if (!WIFSIGNALED(status)) return concat("ended with exit code ", WEXITSTATUS(status));
  return concat("killed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")");
}

// The group first: once the child is waited for, its number may be another's.
int reap(pid_t child) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);  // it may have left its group
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  for (auto& each : known) {
    pid_t gone = child;
    if (each.compare_exchange_strong(gone, 0)) break;
  }
  end_orphans();
  return status;
}

}  // namespace kvc
