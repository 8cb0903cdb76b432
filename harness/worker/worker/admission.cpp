#include "worker/admission.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "sandbox/device.h"

namespace kvc {
namespace {

// More rows than this cost a step as much time as they bring, on every machine met so far.
constexpr int64_t kMostSequences = 64;

// "MemAvailable:   123 kB"
int64_t meminfo_bytes(const std::string& field) {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kib = 0;
    file >> kib;
    if (name == field + ":") return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

int64_t number_in(const char* path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value;
  return file >> value ? value : otherwise;  // "max" is no number
}

}  // namespace

bool Admission::admits(const Prompt& prompt, const Batch& running) const {
  const int64_t n_sequences = running.n_sequences + prompt.n_sequences;
  if (running.n_sequences == 0) return true;
  if (batch_size_ > 0) return n_sequences <= batch_size_;
  if (n_sequences > kMostSequences) return false;
  const double bytes_per_token =
      static_cast<double>(running.kv_bytes) / static_cast<double>(std::max<int64_t>(running.cached_tokens, 1));
  return bytes_per_token * static_cast<double>(running.final_tokens + prompt.final_tokens) <=
         static_cast<double>(memory_bytes_);
}

int64_t available_memory_bytes() {
  const int64_t free_bytes = meminfo_bytes("MemAvailable");
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max", kNoLimit);
  if (limit == kNoLimit) return free_bytes;
  return std::min(free_bytes, std::max<int64_t>(0, limit - number_in("/sys/fs/cgroup/memory.current", 0)));
}

int64_t available_cache_bytes(std::span<const std::string> devices) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& name : devices) {
    const auto free_bytes = free_device_bytes(device_named(name));
    if (!free_bytes) return available_memory_bytes();
    least = std::min(least, *free_bytes);
  }
  return devices.empty() ? available_memory_bytes() : least * static_cast<int64_t>(devices.size());
}

}  // namespace kvc
