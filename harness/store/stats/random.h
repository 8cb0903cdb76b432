// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): output i is a hash of seed and i, the same on every machine.
#pragma once

#include <cstdint>

namespace kvc {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace kvc
