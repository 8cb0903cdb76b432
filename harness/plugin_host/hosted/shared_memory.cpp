#include "hosted/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "kvc/check.h"

namespace kvc {

SharedMemory::SharedMemory(const char* name, size_t n_bytes)
    : fd_(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), n_bytes_(n_bytes) {
  KVC_CHECK(fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(n_bytes)) == 0,
            "cannot make memory shared with a host: ", std::strerror(errno));
  ::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  map(PROT_READ | PROT_WRITE);
}

SharedMemory::SharedMemory(int fd, size_t n_bytes, Access access) : fd_(fd), n_bytes_(n_bytes) {
  map(access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE);
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, n_bytes_);
  ::close(fd_);
}

void SharedMemory::map(int protection) {
  void* data = ::mmap(nullptr, n_bytes_, protection, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  KVC_CHECK(data != MAP_FAILED, "cannot map memory shared with a host: ", std::strerror(errno));
  data_ = static_cast<std::byte*>(data);
}

int SharedMemory::open_read_only() const {
  const int fd = ::open(concat("/proc/self/fd/", fd_).c_str(), O_RDONLY | O_CLOEXEC);
  KVC_CHECK(fd >= 0, "cannot open memory shared with a host: ", std::strerror(errno));
  return fd;
}

void SharedMemory::give_back(size_t from) const {
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
              static_cast<off_t>(n_bytes_ - from));
}

size_t SharedMemory::n_bytes_taken() const {
  struct stat about {};
  return ::fstat(fd_, &about) == 0 ? 512 * static_cast<size_t>(about.st_blocks) : 0;
}

}  // namespace kvc
