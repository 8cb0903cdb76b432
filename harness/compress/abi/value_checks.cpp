#include "kvc/value_checks.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kvc/step_writes.h"

namespace kvc {
namespace {

thread_local ValueChecks* collecting = nullptr;

}  // namespace

ValueChecks::Collecting::Collecting(ValueChecks& checks) : before_(std::exchange(collecting, &checks)) {}
ValueChecks::Collecting::~Collecting() { collecting = before_; }

bool ValueChecks::take(const at::Tensor& holds, const std::function<std::string()>& complaint) {
  if (!collecting) return false;
  collecting->noted_.push_back({holds.numel() == 1 ? holds.squeeze() : holds.all(), complaint});
  return true;
}

bool ValueChecks::all_hold(const at::Tensor& holds) {
  if (auto* writes = StepWrites::of_device(holds.device())) writes->run();  // which write what holds
  return holds.all().item<bool>();
}

void ValueChecks::read(std::span<ValueChecks* const> of_sequences) {
  std::vector<at::Tensor> all;
  for (const auto* checks : of_sequences) {
    for (const auto& check : checks->noted_) all.push_back(check.holds);
  }
  if (all.empty()) return;
  const auto here = at::stack(all).cpu();
  const bool* result = here.const_data_ptr<bool>();
  for (auto* checks : of_sequences) {
    for (auto& check : checks->noted_) check.is_read = true, check.result = *result++;
  }
}

void ValueChecks::settle() {
  if (std::any_of(noted_.begin(), noted_.end(), [](const auto& check) { return !check.is_read; })) {
    ValueChecks* const self = this;
    read({&self, 1});
  }
  for (const auto& check : std::exchange(noted_, {})) {
    if (!check.result) throw Error(check.complaint());
  }
}

}  // namespace kvc
