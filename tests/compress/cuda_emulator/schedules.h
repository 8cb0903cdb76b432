#pragma once
// A kernel gives the same whichever of its threads go first.

#include <gtest/gtest.h>

#include <utility>

#include "cuda_emulator/block.h"

namespace kvc::cuda_emulated {

// Options for as long as it lives; races on global memory are looked for, too.
class WithOptions {
 public:
  explicit WithOptions(Options now) : before_(std::exchange(options(), now)) { options().detect_global_races = true; }
  ~WithOptions() { options() = before_; }
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;

 private:
  Options before_;
};

template <class Body>
void under_all_schedules(const Body& body) {
  const std::pair<const char*, Options> schedules[] = {{"forward", {Order::forward}},
                                                       {"reverse", {Order::reverse}},
                                                       {"random, 1", {Order::random, 1}},
                                                       {"random, 2", {Order::random, 2}},
                                                       {"warp 0 ahead", {Order::warp_ahead, 0}},
                                                       {"warp 1 ahead", {Order::warp_ahead, 1}}};
  for (const auto& [name, chosen] : schedules) {
    SCOPED_TRACE(name);
    const WithOptions with(chosen);
    body();
  }
}

}  // namespace kvc::cuda_emulated
