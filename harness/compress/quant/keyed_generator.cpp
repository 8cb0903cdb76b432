#include "kvc/quant/keyed_generator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace kvc {
namespace {

// Bijective mixing of 64 bits (MurmurHash3's finalizer); 0 stays 0.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

at::Generator keyed_generator(uint64_t seed, uint64_t sequence_key, int64_t layer, int64_t block) {
  const uint64_t key = mixed(mixed(mixed(sequence_key) ^ static_cast<uint64_t>(layer)) ^ static_cast<uint64_t>(block));
  return at::detail::createCPUGenerator(seed ^ key);
}

}  // namespace kvc
