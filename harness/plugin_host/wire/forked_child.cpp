#include "wire/forked_child.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <utility>

#include "contract/stopwatch.h"
#include "kvc/check.h"
#include "text/json.h"
#include "text/message.h"
#include "wire/child_end.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr int kSayFd = 3;
constexpr double kPollSeconds = 0.1;  // between two questions whether the child still lives
constexpr double kClosedSeconds = 2;  // that it has to end after it closed its end
constexpr size_t kMostBytes = 64 << 20;

void write_line(const std::string& secret, const json& message) {
  const auto line = secret + message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t written = 0; written < line.size();) {
    const auto n = ::write(kSayFd, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);  // the parent is gone
    written += static_cast<size_t>(n);
  }
}

bool has_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks)) > 1;
}

void leave_parent(int fd, pid_t parent) {
  std::set_terminate(__gnu_cxx::__verbose_terminate_handler);  // what strangers' code throws is a crash of its own
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before it was asked for
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (const int nothing = ::open("/dev/null", O_RDONLY); nothing >= 0) ::dup2(nothing, 0);
  ::dup2(2, 1);  // the parent has standard output for itself
  ::dup2(fd, kSayFd);
  ::fcntl(kSayFd, F_SETFD, FD_CLOEXEC);
  ::close_range(kSayFd + 1, ~0U, 0);
}

json error_of(const std::exception& e) {
  const bool of_machine = dynamic_cast<const EnvironmentError*>(&e) || dynamic_cast<const std::bad_alloc*>(&e);
  return {{"error", said_by(e)}, {"of_machine", of_machine}};
}

// Nothing that is nested so deep that to copy it takes the parent's stack.
json parse_message(const std::string& line) {
  try {
    check_json_depth(line, "");
    return json::parse(line);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

ForkedChild::ForkedChild(const std::function<void(const Say&)>& body) {
  int ends[2];
  KVC_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe: ", std::strerror(errno));
  std::fflush(nullptr);
  const auto parent = ::getpid();
  const bool alone = !has_threads();
  pid_ = ::fork();
  KVC_CHECK(pid_ >= 0, "cannot start a process: ", std::strerror(errno));
  if (pid_ == 0) {
    leave_parent(ends[1], parent);
    if (!alone) at::set_num_threads(1);  // those of LibTorch's pool have not come along: who waits for them hangs
    const auto say = [this](const json& message) { write_line(secret_, message); };
    try {
      body(say);
    } catch (const std::exception& e) {
      say(error_of(e));
    } catch (...) {
      say({{"error", "something was thrown that is no std::exception"}, {"of_machine", false}});
    }
    ::_exit(0);
  }
  know_child(pid_);
  ::setpgid(pid_, pid_);  // whoever is first
  ::close(ends[1]);
  fd_ = ends[0];
}

ForkedChild::~ForkedChild() {
  ::close(fd_);
  if (pid_ > 0) reap();
}

json ForkedChild::receive(double seconds) {
  const auto start = Clock::now();
  while (!lines_.has_line()) {
    const double left = seconds - seconds_since(start);
    if (left <= 0 || lines_.n_bytes() > kMostBytes) {
      epitaph_ = left <= 0 ? concat("no answer after ", seconds, " s") : "its answer has no end";
      return nullptr;
    }
    if (!read_more(std::min(left, kPollSeconds))) return nullptr;
  }
  const auto line = *lines_.next();
  auto message = line.starts_with(secret_) ? parse_message(line.substr(secret_.size())) : json();
  if (message.is_object()) return message;
  epitaph_ = "its answer is not valid";
  return nullptr;
}

// -> false at the child's end, though what it has started may hold the pipe open
bool ForkedChild::read_more(double seconds) {
  pollfd polled{fd_, POLLIN, 0};
  const auto readable = [&](int milliseconds) { return ::poll(&polled, 1, milliseconds) > 0; };
  if (!readable(static_cast<int>(1000 * seconds) + 1)) {
    if (!has_exited(pid_, 0)) return true;
    if (!readable(0)) return false;  // it may have said something last
  }
  char bytes[1 << 16];
  const auto n = ::read(fd_, bytes, sizeof bytes);
  if (n > 0) lines_.append({bytes, static_cast<size_t>(n)});
  return n > 0 || (n < 0 && errno == EINTR);
}

std::string ForkedChild::epitaph() {
  if (!epitaph_.empty()) return epitaph_;
  has_exited(pid_, kClosedSeconds);
  const int status = reap();
  epitaph_ = WIFSIGNALED(status)
                 ? concat("crashed by signal ", WTERMSIG(status), " (", ::strsignal(WTERMSIG(status)), ")")
                 : concat("ended the process with exit code ", WEXITSTATUS(status));
  return epitaph_;
}

int ForkedChild::reap() { return kvc::reap(std::exchange(pid_, -1)); }

void in_child(const std::vector<std::string>& names, const std::function<json(size_t)>& compute,
              const std::function<void(size_t, const ChildAnswer&)>& take, double seconds) {
  for (size_t next = 0; next < names.size(); ++next) {  // behind the one that ended the last child
    ForkedChild child([&](const auto& say) {
      for (size_t i = next; i < names.size(); ++i) {
        try {
          say({{"value", compute(i)}});
        } catch (const std::exception& e) {
          say(error_of(e));
        } catch (...) {
          say({{"error", names[i] + ": something was thrown that is no std::exception"}, {"of_machine", false}});
        }
      }
    });
    for (; next < names.size(); ++next) {
      const auto message = child.receive(seconds);
      if (message.is_null()) {
        take(next, {nullptr, concat(names[next], ": ", child.epitaph(), " while it was opened")});
        break;
      }
      take(next, {message.value("value", json()), message.value("error", ""), message.value("of_machine", false)});
    }
  }
}

std::vector<json> in_child(const std::vector<std::string>& names, const std::function<json(size_t)>& compute,
                           double seconds) {
  std::vector<json> values;
  const auto take = [&](size_t, const ChildAnswer& answer) {
    if (answer.of_machine) throw EnvironmentError(answer.error);
    if (!answer.error.empty()) throw Error(answer.error);
    values.push_back(answer.value);
  };
  in_child(names, compute, take, seconds);
  return values;
}

}  // namespace kvc
