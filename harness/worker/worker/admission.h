// How many sequences a worker decodes together. Results do not depend on it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvc {

class Admission {
 public:
  // batch_size: sequences at most, or 0 for as many as memory_bytes hold.
  Admission(int64_t batch_size, int64_t memory_bytes) : batch_size_(batch_size), memory_bytes_(memory_bytes) {}

  struct Prompt {
    int64_t n_sequences = 0, final_tokens = 0;  // that it will grow to, all of its sequences together
  };
  struct Batch {
    int64_t n_sequences = 0, final_tokens = 0;
    int64_t kv_bytes = 0, cached_tokens = 0;  // held now, over so many tokens
  };
  // A prompt enters an empty batch whatever it takes.
  bool admits(const Prompt& prompt, const Batch& running) const;

 private:
  int64_t batch_size_, memory_bytes_;
};

// Bytes a process of this machine could still take: what is available, within its control group's limit.
int64_t available_memory_bytes();

// The same of where the caches of a model are that lies on these devices, each with as many of its layers.
int64_t available_cache_bytes(std::span<const std::string> devices);

}  // namespace kvc
