// Checks of values that may be on a device. Reading one there makes the host wait for the device; while a thread
// collects checks, those of device values are deferred and evaluated together, with one read.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvc/check.h"

namespace kvc {

class KVC_EXPORT ValueChecks {
 public:
  // Defers this thread's checks of device values while it is alive.
  class KVC_EXPORT Collecting {
   public:
    explicit Collecting(ValueChecks& checks);
    ~Collecting();
    Collecting(const Collecting&) = delete;
    Collecting& operator=(const Collecting&) = delete;

   private:
    ValueChecks* before_;
  };

  // Reads what the checks of several sequences wait for, once a device; settle() then reads nothing.
  static void read(std::span<ValueChecks* const> of_sequences);
  void settle();  // throws the Error of the first check that fails, and clears all of them

  // Defers the check if this thread collects and the value is on a device.
  static bool take(const at::Tensor& holds, const std::function<std::string()>& complaint);
  static bool all_hold(const at::Tensor& holds);

 private:
  struct Noted {
    at::Tensor holds;
    std::function<std::string()> complaint;
    bool is_read = false, result = false;
  };
  std::vector<Noted> noted_;
};

// Throws Error(complaint()) unless all of `holds` (bools) are true: immediately, or in settle() if checks are
// collected.
template <class Complaint>
void check_values(const at::Tensor& holds, Complaint complaint) {
  if (!holds.is_cpu() && ValueChecks::take(holds, complaint)) return;
  if (!ValueChecks::all_hold(holds)) throw Error(complaint());
}

}  // namespace kvc
