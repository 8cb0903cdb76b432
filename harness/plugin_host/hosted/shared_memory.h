// Memory of two processes: a file without a name, mapped by both, whose size neither can change.
#pragma once

#include <cstddef>
#include <span>

namespace kvc {

class SharedMemory {
 public:
  // Of a new file. Pages take memory once they are written. Throws Error.
  SharedMemory(const char* name, size_t n_bytes);
  // Of one that another process made and this process got as a descriptor, which it keeps.
  enum class Access { read_only, read_and_write };
  SharedMemory(int fd, size_t n_bytes, Access access);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, n_bytes_}; }
  int fd() const { return fd_; }
  int open_read_only() const;         // -> another descriptor, by which nothing can be written
  void give_back(size_t from) const;  // pages beyond `from` take no memory again, and read as 0
  size_t n_bytes_taken() const;       // by pages that were written

 private:
  void map(int protection);

  int fd_;
  size_t n_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace kvc
