// Memory that all caches of a compressor share: projections, code books, masks.
#pragma once

#include "kvc/check.h"

namespace kvc {

// Allocations made while one of these is alive are charged to the compressor, once, separately from the caches. All
// other allocations of a cache's functions are charged to the sequence, which fails unless its footprint() includes
// them. Allocations of the compressor's constructor are shared in any case.
class KVC_EXPORT Shared {
 public:
  Shared();
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  // For the measuring program; not for plugins.
  struct Hooks {
    void* (*enter)() = nullptr;
    void (*leave)(void*) = nullptr;
  };
  static void set_hooks(Hooks hooks);

 private:
  void* entered_ = nullptr;
};

}  // namespace kvc
