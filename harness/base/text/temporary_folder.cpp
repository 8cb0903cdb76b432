#include "text/temporary_folder.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "kvc/check.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

void remove_folder(const fs::path& path) {
  std::error_code ignored;  // what is left stands below the system's temporary folder
  fs::remove_all(path, ignored);
}

// The read end of a pipe ends when the last process that holds the write end has ended.
[[noreturn]] void remove_at_end_of(int pipe, const fs::path& path) {
  setsid();  // Ctrl-C is not for this process
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
  char byte;
  while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
  }
  remove_folder(path);
  _exit(0);
}

}  // namespace

TemporaryFolder::~TemporaryFolder() {
  if (!path_.empty()) remove_folder(path_);
}

const fs::path& TemporaryFolder::path() {
  if (!path_.empty()) return path_;
  auto name = (fs::temp_directory_path() / "kvc_XXXXXX").string();
  if (!mkdtemp(name.data())) throw EnvironmentError(concat("cannot make '", name, "': ", std::strerror(errno)));
  return path_ = name;
}

void TemporaryFolder::remove_after_exec() {
  if (path_.empty()) return;
  int ends[2];
  const bool made = pipe(ends) == 0;  // both ends stay open through exec
  const pid_t child = made ? fork() : -1;
  if (child < 0) throw EnvironmentError(concat("cannot watch '", path_.string(), "': ", std::strerror(errno)));
  if (child == 0) {
    close(ends[1]);
    remove_at_end_of(ends[0], path_);
  }
  close(ends[0]);
}

}  // namespace kvc
