#include "text/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kvc/check.h"

namespace kvc {
namespace {

int64_t regular_file_bytes(int file, const std::string& path) {
  struct stat status;
  KVC_CHECK(::fstat(file, &status) == 0, "cannot read '", path, "': ", std::strerror(errno));
  KVC_CHECK(S_ISREG(status.st_mode), "cannot read '", path, "': not a regular file");
  return status.st_size;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path)
    : path_(path.string()), file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  KVC_CHECK(file_ >= 0, "cannot open '", path_, "': ", std::strerror(errno));
  try {
    n_bytes_ = regular_file_bytes(file_, path_);
    std::string start(static_cast<size_t>(std::min<int64_t>(n_bytes_, kLfsPointer.size())), '\0');
    read(start.data(), static_cast<int64_t>(start.size()), 0);
    KVC_CHECK(start != kLfsPointer, path_, kIsLfsPointer);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), n_bytes_(other.n_bytes_) {}

OpenFile::~OpenFile() {
  if (file_ >= 0) ::close(file_);
}

void OpenFile::read(void* out, int64_t n_bytes, int64_t offset) const {
  auto* to = static_cast<char*>(out);
  while (n_bytes > 0) {
    const ssize_t n_read = ::pread(file_, to, static_cast<size_t>(n_bytes), offset);
    if (n_read < 0 && errno == EINTR) continue;
    KVC_CHECK(n_read >= 0, "cannot read '", path_, "': ", std::strerror(errno));
    KVC_CHECK(n_read > 0, path_, ": ends at byte ", offset, " while it is read, ", n_bytes, " bytes are missing");
    to += n_read;
    offset += n_read;
    n_bytes -= n_read;
  }
}

}  // namespace kvc
