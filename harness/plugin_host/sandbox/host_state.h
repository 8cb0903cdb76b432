// State of the process that a plugin may change by accident and that later computations would use.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <functional>
#include <string>

namespace kvc {

// As it is when it is made: of this thread, and LibTorch's settings, which are the process's.
class HostState {
 public:
  // with_settings: false while other plugins run in parallel, whose changes would be attributed to this one.
  explicit HostState(bool with_settings = true);

  // Puts back what has been changed since. -> what that was, "the rounding mode, the number of threads"; or nothing
  std::string put_back() const;

 private:
  void put_back_settings(const std::function<void(const char*)>& note) const;

  bool with_settings_;
  int rounding_;
  unsigned float_control_;  // x86's MXCSR: flush to zero, denormals are zero, exceptions that trap; 0 elsewhere
  int n_threads_ = 0;
  c10::ScalarType dtype_;
  c10::AutogradState autograd_;
  c10::impl::LocalDispatchKeySet dispatch_keys_;
};

}  // namespace kvc
