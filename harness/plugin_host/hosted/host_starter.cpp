#include "hosted/host_starter.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <optional>

#include "hosted/kvc_library.h"
#include "hosted/protocol.h"
#include "hosted/starter_socket.h"
#include "text/program_paths.h"
#include "wire/child_end.h"

namespace kvc {
namespace {

// With these descriptors from 3 on, and /dev/null to read from. What it prints goes to standard error.
pid_t spawn(const char* program, char* const* arguments, char* const* environment, std::span<const int> fds) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, 2, 1);
  std::vector<int> moved;  // out of the way first, so that no dup2 closes what another needs
  for (const int fd : fds) moved.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, 64));
  for (size_t i = 0; i < moved.size(); ++i) {
    ::posix_spawn_file_actions_adddup2(&actions, moved[i], protocol::kControlFd + static_cast<int>(i));
  }
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, program, &actions, nullptr, arguments, environment);
  ::posix_spawn_file_actions_destroy(&actions);
  for (const int fd : moved) ::close(fd);
  KVC_CHECK(error == 0, "cannot start ", program, ": ", std::strerror(error));
  know_child(pid);
  return pid;
}

// As of workers: threads that spin stop those that they wait for.
void let_threads_sleep() { ::setenv("GOMP_SPINCOUNT", "10000", 0); }

// `kvc host`, started when the first host is.
class Starter {
 public:
  Starter() : of_(::getpid()) {
    int sockets[2];
    KVC_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0,
              "cannot make a socket: ", std::strerror(errno));
    socket_ = sockets[0];
    let_threads_sleep();
    char program[] = "/proc/self/exe", verb[] = "host";
    char* arguments[] = {program, verb, nullptr};
    pid_ = spawn(program, arguments, environ, {&sockets[1], 1});
    ::close(sockets[1]);
  }
  ~Starter() {
    ::close(socket_);
    if (of_ == ::getpid()) reap(pid_);
  }

  pid_t of() const { return of_; }

  int ask(StarterWord word, const HostFds* fds = nullptr) {
    const std::lock_guard lock(mutex_);
    const auto answer = send_word(socket_, word, fds) ? receive_word(socket_) : std::nullopt;
    KVC_CHECK(answer, "the process that starts hosts has ended");
    return answer->value;
  }

 private:
  pid_t of_;
  std::mutex mutex_;
  int socket_ = -1;
  pid_t pid_ = -1;
};

// Of this process: a fork has its own.
Starter& starter() {
  static std::mutex mutex;
  static std::optional<Starter> starter;
  const std::lock_guard lock(mutex);
  if (!starter || starter->of() != ::getpid()) starter.emplace();
  return *starter;
}

// The interpreter's own variables would lead it to other packages.
std::vector<std::string> python_environment(const std::string& package) {
  std::vector<std::string> environment{"PYTHONPATH=" + package, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
                                       "KVC_CONTAIN=" + kvc_library("libkvc_contain.so")};
  for (char** each = environ; *each; ++each) {
    const std::string entry = *each;
    if (!entry.starts_with("PYTHON") && !entry.starts_with("KVC_")) environment.push_back(entry);
  }
  return environment;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

pid_t start_host(const HostFds& fds) {
  const int pid = starter().ask({StarterWord::What::start, 0}, &fds);
  KVC_CHECK(pid > 0, "cannot start a host: ", std::strerror(-pid));
  return pid;
}

pid_t start_python_host(const std::string& python, const HostFds& fds) {
  let_threads_sleep();
  const auto package = find_paths().python();
  std::vector<std::string> words{python, "-s", "-X", "faulthandler", (package / "kvc/host.py").string()};
  auto environment = python_environment(package.string());
  return spawn(python.c_str(), pointers(words).data(), pointers(environment).data(), fds);
}

int end_host(pid_t pid) { return starter().ask({StarterWord::What::end, pid}); }
int end_python_host(pid_t pid) { return reap(pid); }

}  // namespace kvc
