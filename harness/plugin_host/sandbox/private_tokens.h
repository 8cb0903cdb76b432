// Tokens as a plugin gets them: copies, so that nothing it does to them affects other code, and invalidated after the
// call, so that keeping them is of no use. Where the thread has StepWrites, a device's copies are made and overwritten by its
// run().
#pragma once

#include "kvc/layer_cache.h"

namespace kvc {

class PrivateTokens {
 public:
  // The same tokens; valid until the next copy_in(), reclaim() or invalidate().
  const NewTokens& copy_in(const NewTokens& tokens);
  bool has_room(const NewTokens& tokens) const;  // copy_in() allocates nothing
  const NewTokens& tokens() const { return copy_; }

  // After append(). Throws Error if the plugin still holds one of the tensors, and leaves that one to it.
  void reclaim();

  // Overwrites K and V with NaN.
  void invalidate();

 private:
  NewTokens copy_;
};

}  // namespace kvc
