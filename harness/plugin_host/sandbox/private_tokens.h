// Tokens as a plugin gets them: copies of its own, so that what it does to them reaches nobody else, and what it keeps
// of them it keeps in vain.
#pragma once

#include "kvc/layer_cache.h"

namespace kvc {

class PrivateTokens {
 public:
  // The same tokens; valid until the next lend(), take_back() or poison().
  const NewTokens& lend(const NewTokens& tokens);
  bool has_room(const NewTokens& tokens) const;  // lend() allocates nothing
  const NewTokens& tokens() const { return copy_; }

  // After append(). Throws Error where the plugin still holds one of the tensors; that one is its own from now on.
  void take_back();

  // Overwrites K and V with NaN: whoever reads them again computes with that.
  void poison();

 private:
  NewTokens copy_;
};

}  // namespace kvc
