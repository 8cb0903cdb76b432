#include "cli/standard_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "cli/verbs.h"

namespace kvc {
namespace {

// 0: nothing is lost. stdio forgets why a write failed, so another one asks.
int output_error() {
  std::cout.flush();
  const bool was_lost = std::ferror(stdout) != 0 || !std::cout;
  errno = 0;
  if (std::fflush(stdout) != 0 && errno != 0) return errno;
  if (was_lost) return ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
  const int copy = ::dup(STDOUT_FILENO);  // its close says what a quota or a file server refuses late
  return copy >= 0 && ::close(copy) != 0 ? errno : 0;
}

}  // namespace

void open_standard_descriptors() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // as closed ones
  }
}

bool is_output_lost() { return std::fflush(stdout) != 0 || std::ferror(stdout) != 0; }

int end_standard_output(int code) {
  const int error = output_error();
  if (error == 0) return code;
  if (error != EPIPE) std::fprintf(stderr, "kvc: cannot write standard output: %s\n", std::strerror(error));
  if (code != 0) return code;
  return error == EPIPE ? 128 + SIGPIPE : kEnvironment;
}

}  // namespace kvc
