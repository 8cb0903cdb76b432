#include "host/host.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "host/serve_host.h"
#include "hosted/protocol.h"
#include "hosted/starter_socket.h"
#include "kvc/check.h"
#include "wire/child_end.h"

namespace kvc {
namespace {

// What LibTorch and its libraries do once: they look at the machine's processors and files, and make tables.
void warm_up() {
  at::set_num_threads(1);  // a fork has no threads of a pool
  const auto x = at::rand({16, 16}), y = at::matmul(x, x.t());
  at::softmax(y, -1).sum().item<float>();
  at::matmul(x.to(at::kHalf), x.to(at::kHalf));
  at::matmul(x.to(at::kBFloat16), x.to(at::kBFloat16));
  at::conv1d(x.unsqueeze(0), at::rand({4, 16, 3}));
  at::linalg_eigvalsh(y);
  at::linalg_svd(x, false);
  at::linalg_qr(x);
  std::get<0>(x.topk(4));
  std::get<0>(x.sort());
  x.cumsum(0).quantile(0.5);
}

// The child: only what it was given stays open.
[[noreturn]] void become_host(const std::array<int, 3>& fds, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before it was asked for
  std::array<int, 3> moved{};
  for (size_t i = 0; i < fds.size(); ++i) moved[i] = ::fcntl(fds[i], F_DUPFD, 64);
  for (size_t i = 0; i < fds.size(); ++i) ::dup2(moved[i], protocol::kControlFd + static_cast<int>(i));
  ::close_range(protocol::kOutputsFd + 1, ~0U, 0);
  serve_host();
}

int start(const std::array<int, 3>& fds) {
  const auto parent = ::getpid();
  const auto pid = ::fork();
  const int error = errno;
  if (pid == 0) become_host(fds, parent);
  return pid < 0 ? -error : pid;
}

int end(pid_t pid) {
  ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

int run_host() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, kHostName);
  KVC_CHECK(::fcntl(kStarterFd, F_GETFD) >= 0, "`host` is started by kvc, not by hand");
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // as in a worker
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  warm_up();
  while (true) {
    std::array<int, 3> fds{-1, -1, -1};
    const auto word = receive_word(kStarterFd, &fds);
    if (!word) return 0;
    const int value = word->what == StarterWord::What::start ? start(fds) : end(word->value);
    for (const int fd : fds) {
      if (fd >= 0) ::close(fd);
    }
    if (!send_word(kStarterFd, {word->what, value})) return 0;
  }
}

}  // namespace kvc
