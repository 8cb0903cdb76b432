// Checks of numbers that may lie on a device. To look at one there, the host has to wait for all that the device was
// asked to do: where somebody collects them, checks of a device's numbers are noted and looked at together, with one
// read.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kvc/check.h"

namespace kvc {

class KVC_EXPORT ValueChecks {
 public:
  // Notes what this thread checks, for as long as it lives.
  class KVC_EXPORT Collecting {
   public:
    explicit Collecting(ValueChecks& checks);
    ~Collecting();
    Collecting(const Collecting&) = delete;
    Collecting& operator=(const Collecting&) = delete;

   private:
    ValueChecks* before_;
  };

  void settle();  // throws the Error of the first that does not hold, and forgets them all

  // Takes the check where this thread collects and a device holds it.
  static bool take(const at::Tensor& holds, const std::function<std::string()>& complaint);
  static bool all_hold(const at::Tensor& holds);

 private:
  struct Noted {
    at::Tensor holds;
    std::function<std::string()> complaint;
  };
  std::vector<Noted> noted_;
};

// Throws Error(complaint()) unless all of `holds` (bools) are true: at once, or when those that are collected are
// settled.
template <class Complaint>
void check_values(const at::Tensor& holds, Complaint complaint) {
  if (!holds.is_cpu() && ValueChecks::take(holds, complaint)) return;
  if (!ValueChecks::all_hold(holds)) throw Error(complaint());
}

}  // namespace kvc
