// How fast this machine reads memory: what the time of an attention that reads a cache once is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kvc {

// Memory of its own, made for the largest size asked for and kept; seen by no meter.
class MemoryReader {
 public:
  // Seconds that LibTorch's threads take to read so many bytes from front to end, added up and thrown away: the least
  // of several times, the first of which is not counted.
  double seconds(int64_t n_bytes);

 private:
  struct Unmap {
    size_t n_bytes;
    void operator()(void* memory) const;
  };
  std::unique_ptr<uint64_t, Unmap> memory_{nullptr, Unmap{0}};
};

}  // namespace kvc
