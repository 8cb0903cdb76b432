#include "wire/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "kvc/check.h"
#include "text/json.h"
#include "text/message.h"
#include "wire/child_end.h"

namespace kvc {
namespace {

// The child finds its socket and the shared int on these descriptors; standard output stays a plugin's to print on.
constexpr int kSocketFd = 3;
constexpr int kSharedFd = 4;
constexpr uint64_t kFirstDrawnFd = 64;
constexpr int kPollMs = 100;  // between two questions whether to keep on
constexpr const char* kLastWords = "last_words";
constexpr double kToldSeconds = 2;       // that a child has to end after it was told to
constexpr double kStepsToPatience = 10;  // of the longest step so far

std::string line_of(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// To a number that is not known beforehand. Plugins share the process: this keeps out those that try a few.
int moved_away(int fd) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto most = std::min<uint64_t>(limit.rlim_cur, 1024);
  if (most <= 2 * kFirstDrawnFd) return fd;
  const auto first = kFirstDrawnFd + std::random_device()() % (most - 2 * kFirstDrawnFd);
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(first));
  if (moved < 0) return fd;
  ::close(fd);
  return moved;
}

WorkerPlace* map_place(int fd) {
  void* shared = ::mmap(nullptr, sizeof(WorkerPlace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  KVC_CHECK(shared != MAP_FAILED, "cannot map the memory shared with a worker: ", std::strerror(errno));
  return static_cast<WorkerPlace*>(shared);
}

}  // namespace

WorkerProcess::WorkerProcess(const nlohmann::json& set_up) {
  int sockets[2];
  KVC_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0,
            "cannot make a socket for a worker: ", std::strerror(errno));
  const int shared = ::memfd_create("kvc-entered", MFD_CLOEXEC);
  KVC_CHECK(shared >= 0 && ::ftruncate(shared, sizeof(WorkerPlace)) == 0,
            "cannot make shared memory for a worker: ", std::strerror(errno));
  place_ = map_place(shared);
  *place_ = {};

  // Moved out of the way first, so that neither dup2 below can close what the other needs.
  const int child_socket = ::fcntl(sockets[1], F_DUPFD_CLOEXEC, 10);
  const int child_shared = ::fcntl(shared, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, child_socket, kSocketFd);
  ::posix_spawn_file_actions_adddup2(&actions, child_shared, kSharedFd);
  // In a process group of its own: a terminal's Ctrl-C is the parent's to answer.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  // Threads that wait by spinning stop the ones they wait for where processes outnumber cores. A user's own choice
  // stays.
  ::setenv("GOMP_SPINCOUNT", "10000", 0);
  // Large blocks in pages of 2 MiB where the system gives them when asked: a prompt's tensors are new to the process,
  // and a page of 4 KiB costs as much to get as to fill.
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
  char program[] = "/proc/self/exe", verb[] = "worker";
  char* arguments[] = {program, verb, nullptr};
  const int error = ::posix_spawn(&child_, program, &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  for (const int fd : {sockets[1], shared, child_socket, child_shared}) ::close(fd);
  socket_ = sockets[0];
  KVC_CHECK(error == 0, "cannot start a worker: ", std::strerror(error));
  know_child(child_);
  secret_ = drawn_secret();
  ::send(socket_, secret_.data(), secret_.size(), MSG_NOSIGNAL);  // into an empty buffer
  send(set_up);
}

WorkerProcess::~WorkerProcess() {
  if (socket_ >= 0) ::close(socket_);
  if (place_) ::munmap(place_, sizeof(WorkerPlace));
  if (child_ > 0) reap();
}

// Both ends may have filled the socket, each waiting for the other to read: this one then reads.
void WorkerProcess::send(const nlohmann::json& message) {
  since_ = Clock::now();
  const auto line = line_of(message);
  for (size_t sent = 0; sent < line.size() && !ended();) {
    const auto n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) sent += static_cast<size_t>(n);
    if (n >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) {  // its end, or of no use any more: receive() then sees it end
      ::shutdown(socket_, SHUT_RDWR);
      return;
    }
    pollfd polled{socket_, POLLIN | POLLOUT, 0};
    ::poll(&polled, 1, kPollMs);
    if ((polled.revents & POLLIN) && !read_more()) return;
    end_if_stuck();
  }
}

bool WorkerProcess::read_more() {
  char bytes[1 << 16];
  ssize_t n;
  do n = ::recv(socket_, bytes, sizeof bytes, 0);
  while (n < 0 && errno == EINTR);
  if (n <= 0) return false;
  lines_.append({bytes, static_cast<size_t>(n)});
  return true;
}

std::vector<nlohmann::json> WorkerProcess::receive() {
  const bool lives = read_more();
  std::vector<nlohmann::json> messages;
  while (const auto line = lines_.next()) {
    const bool is_its_own = line->starts_with(secret_);
    messages.push_back(is_its_own ? try_json(line->substr(secret_.size())) : nullptr);
    const auto& message = messages.back();
    if (message.is_object() && !message.contains(kLastWords)) continue;
    end(message.is_object() ? concat("ended: ", one_line(message.value(kLastWords, "")))
                            : "stopped: its message is not valid");
    return {};
  }
  if (!lives && !ended()) read_epitaph();
  return messages;
}

void WorkerProcess::end_if_stuck() {
  if (child_ < 0 || patience_ <= 0) return;
  const auto steps = std::atomic_ref(place_->steps).load();
  const double seconds = seconds_since(since_);
  if (steps != steps_seen_) {
    longest_step_ = std::max(longest_step_, seconds);
    steps_seen_ = steps;
    since_ = Clock::now();
  } else if (seconds > std::max(patience_, kStepsToPatience * longest_step_)) {
    was_stuck_ = true;
    end(concat("stopped after ", std::llround(seconds), " s at one step"));
  } else if (has_exited(child_, 0)) {
    ::kill(-child_, SIGKILL);  // what it has started may hold the socket open
  }
}

void WorkerProcess::end(const std::string& epitaph) {
  ::kill(-child_, SIGTERM);
  has_exited(child_, kToldSeconds);
  reap();
  epitaph_ = epitaph;
}

nlohmann::json WorkerProcess::next(const std::string& who, const std::function<bool()>& keep_on) {
  while (waiting_.empty()) {
    KVC_CHECK(!ended(), who, " was ", epitaph_, last_entered() >= 0 ? " inside the plugin" : "");
    pollfd polled{socket_, POLLIN, 0};
    if (::poll(&polled, 1, kPollMs) > 0) waiting_ = receive();
    end_if_stuck();
    if (keep_on && !keep_on()) return nullptr;
  }
  auto message = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return message;
}

int WorkerProcess::last_entered() const { return std::atomic_ref(place_->compressor).load(); }

int WorkerProcess::reap() { return kvc::reap(std::exchange(child_, -1)); }

// The child has closed its socket, and is about to end unless it was a plugin that did.
void WorkerProcess::read_epitaph() {
  has_exited(child_, kToldSeconds);
  epitaph_ = said_of_status(reap());
}

WorkerChannel::WorkerChannel() : place_(nullptr), socket_(kSocketFd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  KVC_CHECK(::fcntl(kSocketFd, F_GETFD) >= 0 && ::fcntl(kSharedFd, F_GETFD) >= 0,
            "`worker` is started by `run`, not by hand");
  ::fcntl(kSocketFd, F_SETFD, FD_CLOEXEC);
  socket_ = moved_away(kSocketFd);
  if (::recv(socket_, secret_.data(), secret_.size(), MSG_WAITALL) != static_cast<ssize_t>(secret_.size())) ::_exit(1);
  try {
    place_ = map_place(kSharedFd);
  } catch (const Error& e) {  // the parent's to tell
    send_last_words(e.what());
    ::_exit(3);
  }
  ::close(kSharedFd);
}

std::optional<nlohmann::json> WorkerChannel::receive() {
  while (!lines_.has_line()) {
    char bytes[1 << 16];
    const auto n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    lines_.append({bytes, static_cast<size_t>(n)});
  }
  return nlohmann::json::parse(*lines_.next());
}

bool WorkerChannel::has_message() {
  if (lines_.has_line()) return true;
  pollfd polled{socket_, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

void WorkerChannel::send_last_words(const std::string& why) { send({{kLastWords, why}}); }

void WorkerChannel::send(const nlohmann::json& message) {
  const auto line = line_of(message);
  send_bytes({secret_.data(), secret_.size()});  // in no memory that is given back
  send_bytes(line);
}

void WorkerChannel::send_bytes(std::string_view line) {
  for (size_t sent = 0; sent < line.size();) {
    const auto n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);  // nobody is there to be told
    sent += static_cast<size_t>(n);
  }
}

}  // namespace kvc
