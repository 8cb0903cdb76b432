// Masks made once for all caches of a compressor, in memory. A mask is a function of its key, so one that was let go is
// made again the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <list>
#include <memory>
#include <mutex>

#include "expander.h"

namespace gearx {

class MaskStore {
 public:
  // The mask, repeated for n_copies heads, each m channels further: [n, n_copies * d_t]. From any thread. The store
  // keeps the kHeld that were asked for last; who holds a mask keeps it longer.
  std::shared_ptr<const Mask> get(const MaskKey& key, int64_t n_copies = 1) const;

  // The same as a tensor u16 that must not be written to, on that device: one for all that ask.
  at::Tensor index(const MaskKey& key, int64_t n_copies, at::Device device) const;

  static constexpr size_t kHeld = 32;

 private:
  struct Held {
    MaskKey key;
    int64_t n_copies;
    std::shared_ptr<const Mask> mask;
    at::Tensor there = {};  // on the device that asked last
  };
  std::shared_ptr<const Mask> find(const MaskKey& key, int64_t n_copies) const;  // or null

  mutable std::mutex mutex_;      // guards what is held; masks are made outside of it
  mutable std::list<Held> held_;  // the last asked for first
};

}  // namespace gearx
