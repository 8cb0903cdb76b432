#include "wire/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kvc/check.h"

namespace kvc {
namespace {

// The child finds its socket and the shared int on these descriptors; standard output stays a plugin's to print on.
constexpr int kSocketFd = 3;
constexpr int kSharedFd = 4;
constexpr int kPatienceMs = 100;  // between two questions whether to keep on

std::vector<std::string> take_lines(std::string& buffer) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t end; (end = buffer.find('\n', start)) != std::string::npos; start = end + 1) {
    lines.push_back(buffer.substr(start, end - start));
  }
  buffer.erase(0, start);
  return lines;
}

bool send_line(int fd, const nlohmann::json& message) {
  const auto line = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < line.size();) {
    const auto n = ::send(fd, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

int* map_shared(int fd) {
  void* shared = ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  KVC_CHECK(shared != MAP_FAILED, "cannot map the memory shared with a worker: ", std::strerror(errno));
  return static_cast<int*>(shared);
}

}  // namespace

WorkerProcess::WorkerProcess(const nlohmann::json& set_up) {
  int sockets[2];
  KVC_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0,
            "cannot make a socket for a worker: ", std::strerror(errno));
  const int shared = ::memfd_create("kvc-entered", MFD_CLOEXEC);
  KVC_CHECK(shared >= 0 && ::ftruncate(shared, sizeof(int)) == 0,
            "cannot make shared memory for a worker: ", std::strerror(errno));
  entered_ = map_shared(shared);
  *entered_ = -1;

  // Moved out of the way first, so that neither dup2 below can close what the other needs.
  const int child_socket = ::fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
  const int child_shared = ::fcntl(shared, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, child_socket, kSocketFd);
  ::posix_spawn_file_actions_adddup2(&actions, child_shared, kSharedFd);
  // In a process group of its own: a terminal's Ctrl-C is the parent's to answer.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  // Threads that wait by spinning stop the ones they wait for where processes outnumber cores. A user's own choice
  // stays.
  ::setenv("GOMP_SPINCOUNT", "10000", 0);
  char program[] = "/proc/self/exe", verb[] = "worker";
  char* arguments[] = {program, verb, nullptr};
  const int error = ::posix_spawn(&child_, program, &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  for (const int fd : {sockets[1], shared, child_socket, child_shared}) ::close(fd);
  socket_ = sockets[0];
  KVC_CHECK(error == 0, "cannot start a worker: ", std::strerror(error));
  send(set_up);
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      entered_(std::exchange(other.entered_, nullptr)),
      buffer_(std::move(other.buffer_)),
      epitaph_(std::move(other.epitaph_)),
      waiting_(std::move(other.waiting_)) {}

WorkerProcess::~WorkerProcess() {
  if (socket_ >= 0) ::close(socket_);
  if (entered_) ::munmap(entered_, sizeof(int));
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
}

void WorkerProcess::send(const nlohmann::json& message) { send_line(socket_, message); }

std::vector<nlohmann::json> WorkerProcess::receive() {
  char bytes[1 << 16];
  ssize_t n;
  do n = ::recv(socket_, bytes, sizeof bytes, 0);
  while (n < 0 && errno == EINTR);
  if (n <= 0) {
    read_epitaph();
    return {};
  }
  buffer_.append(bytes, static_cast<size_t>(n));
  std::vector<nlohmann::json> messages;
  for (const auto& line : take_lines(buffer_)) messages.push_back(nlohmann::json::parse(line));
  return messages;
}

nlohmann::json WorkerProcess::next(const std::string& who, const std::function<bool()>& keep_on) {
  while (waiting_.empty()) {
    KVC_CHECK(!ended(), who, " was ", epitaph_, last_entered() >= 0 ? " inside the plugin" : "");
    pollfd polled{socket_, POLLIN, 0};
    if (::poll(&polled, 1, kPatienceMs) > 0) waiting_ = receive();
    if (keep_on && !keep_on()) return nullptr;
  }
  auto message = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return message;
}

int WorkerProcess::last_entered() const { return *entered_; }

void WorkerProcess::read_epitaph() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  epitaph_ = WIFSIGNALED(status)
                 ? concat("killed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
                 : concat("ended with exit code ", WEXITSTATUS(status));
}

WorkerChannel::WorkerChannel() : entered_(nullptr) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  KVC_CHECK(::fcntl(kSocketFd, F_GETFD) >= 0 && ::fcntl(kSharedFd, F_GETFD) >= 0,
            "`worker` is started by `run`, not by hand");
  entered_ = map_shared(kSharedFd);
}

std::optional<nlohmann::json> WorkerChannel::receive() {
  while (buffer_.find('\n') == std::string::npos) {
    char bytes[1 << 16];
    const auto n = ::recv(kSocketFd, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<size_t>(n));
  }
  const size_t end = buffer_.find('\n');
  const auto line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return nlohmann::json::parse(line);
}

bool WorkerChannel::has_message() {
  if (buffer_.find('\n') != std::string::npos) return true;
  pollfd polled{kSocketFd, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

void WorkerChannel::send(const nlohmann::json& message) {
  KVC_CHECK(send_line(kSocketFd, message), "the parent of this worker is gone");
}

}  // namespace kvc
