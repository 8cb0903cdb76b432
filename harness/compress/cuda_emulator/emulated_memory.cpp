#include "cuda_emulator/emulated_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory_resource>
#include <mutex>

#include "cuda_emulator/device_memory.h"
#include "kvc/check.h"

namespace kvc {
namespace {

using cuda_emulated::bytes_of_device;

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);

// Where the allocator's maps are: their memory is no caller's, so that nothing charges it to one.
constexpr std::uintptr_t kMapsBegin = cuda_emulated::kDeviceBegin + 2 * cuda_emulated::kDeviceToHost;
constexpr size_t kMapsBytes = cuda_emulated::kDeviceBytes / kDeviceBlock * 64;  // a node is 48 bytes

void* reserve(std::uintptr_t begin, size_t bytes, int protection) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void* wanted = reinterpret_cast<void*>(begin);
  KVC_CHECK(::mmap(wanted, bytes, protection, kFlags, -1, 0) == wanted,
            "cuda-emulated: its addresses are taken: ", std::strerror(errno));
  return wanted;
}

// First fit; neighbours that are free are one.
class Memory final : public c10::Allocator {
 public:
  Memory() {
    reserve(cuda_emulated::kDeviceBegin, cuda_emulated::kDeviceBytes, PROT_NONE);
    reserve(cuda_emulated::kDeviceBegin + cuda_emulated::kDeviceToHost, cuda_emulated::kDeviceBytes,
            PROT_READ | PROT_WRITE);
    free_[cuda_emulated::kDeviceBegin] = cuda_emulated::kDeviceBytes;
  }

  c10::DataPtr allocate(size_t n) override {
    if (n == 0) return {nullptr, nullptr, &give_back, kDevice};
    const size_t bytes = (n + kDeviceBlock - 1) / kDeviceBlock * kDeviceBlock;
    auto* memory = reinterpret_cast<void*>(take(bytes));
    std::memset(bytes_of_device(memory), 0xff, bytes);
    c10::DataPtr pointer(memory, memory, &give_back, kDevice);  // returned by what reports, where that throws
    report(memory, static_cast<int64_t>(bytes));
    return pointer;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t n) const override {
    std::memcpy(bytes_of_device(to), bytes_of_device(from), n);
  }

 private:
  std::uintptr_t take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [begin, free_bytes] = *range;
      if (free_bytes < bytes) continue;
      free_.erase(range);
      if (free_bytes > bytes) free_[begin + bytes] = free_bytes - bytes;
      taken_[begin] = bytes;
      held_ += bytes;
      return begin;
    }
    throw Error(concat("cuda-emulated: no ", bytes, " bytes are free of ", cuda_emulated::kDeviceBytes));
  }

  size_t put_back(std::uintptr_t begin) {
    const std::lock_guard lock(mutex_);
    const auto taken = taken_.extract(begin);
    const size_t bytes = taken.mapped();
    held_ -= bytes;
    give_up_pages(begin, bytes);
    join(begin, bytes);
    return bytes;
  }

  // Of a large block: the system has them back.
  static void give_up_pages(std::uintptr_t begin, size_t bytes) {
    constexpr size_t kPage = 4096, kLarge = 1 << 20;
    if (bytes < kLarge) return;
    const auto first = (begin + kPage - 1) / kPage * kPage, end = (begin + bytes) / kPage * kPage;
    ::madvise(bytes_of_device(reinterpret_cast<void*>(first)), end - first, MADV_DONTNEED);
  }

  void join(std::uintptr_t begin, size_t bytes) {
    auto next = free_.upper_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == begin) {
      std::prev(next)->second += bytes;
    } else {
      free_[begin] = bytes;
    }
  }

  void report(void* memory, int64_t bytes) const {
    c10::reportMemoryUsageToProfiler(memory, bytes, held_, held_, kDevice);
  }

  static void give_back(void* memory);

  std::mutex mutex_;
  std::pmr::monotonic_buffer_resource nodes_{reserve(kMapsBegin, kMapsBytes, PROT_READ | PROT_WRITE), kMapsBytes,
                                             std::pmr::null_memory_resource()};
  std::pmr::unsynchronized_pool_resource pool_{&nodes_};
  std::pmr::map<std::uintptr_t, size_t> free_{&pool_}, taken_{&pool_};  // address, bytes
  size_t held_ = 0;
};

Memory& memory() {
  static auto* memory = new Memory;  // outlives tensors that are static
  return *memory;
}

void Memory::give_back(void* pointer) {
  if (!pointer) return;
  const auto bytes = memory().put_back(reinterpret_cast<std::uintptr_t>(pointer));
  memory().report(pointer, -static_cast<int64_t>(bytes));
}

}  // namespace

c10::Allocator& emulated_memory() { return memory(); }

}  // namespace kvc
