// How many sequences a worker decodes together. Results do not depend on it.
#pragma once

#include <cstdint>

namespace kvc {

class Admission {
 public:
  // batch_size: sequences at most, or 0 for as many as memory_bytes hold.
  Admission(int64_t batch_size, int64_t memory_bytes) : batch_size_(batch_size), memory_bytes_(memory_bytes) {}

  // Whether a prompt of n_new more sequences may enter beside those that run, which hold kv_bytes over cached_tokens
  // and will grow to final_tokens. A prompt enters an empty batch whatever it takes.
  bool admits(int64_t n_new, int64_t new_final_tokens, int64_t n_running, int64_t kv_bytes, int64_t cached_tokens,
              int64_t final_tokens) const;

 private:
  int64_t batch_size_, memory_bytes_;
};

// Bytes a process of this machine could still take: what is available, within its control group's limit.
int64_t available_memory_bytes();

}  // namespace kvc
