#include "fetch/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kvc/check.h"

namespace kvc {

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw EnvironmentError(concat("cannot make the folder '", folder.string(), "': ", failed.message()));
}

FileLock::FileLock(const std::filesystem::path& file, const std::function<void()>& on_wait) {
  make_folder(file.parent_path());
  file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw EnvironmentError(concat("cannot write '", file.string(), "': ", std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) on_wait();
  while (::flock(file_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(file_);
    throw EnvironmentError(concat("cannot lock '", file.string(), "': ", std::strerror(error)));
  }
}

FileLock::~FileLock() { ::close(file_); }

}  // namespace kvc
