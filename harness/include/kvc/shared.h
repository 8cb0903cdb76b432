// What all caches of a compressor share: projections, code books, masks.
#pragma once

#include "kvc/check.h"

namespace kvc {

// What is made inside one of these while a cache works is the compressor's: its bytes are told once beside the caches'.
// Outside, they are the sequence's in whose time they are made, which fails unless its footprint has them. What the
// compressor's constructor makes is shared as it is.
class KVC_EXPORT Shared {
 public:
  Shared();
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  // Of the program that measures; a plugin has no use for them.
  struct Hooks {
    void* (*enter)() = nullptr;
    void (*leave)(void*) = nullptr;
  };
  static void set_hooks(Hooks hooks);

 private:
  void* entered_ = nullptr;
};

}  // namespace kvc
