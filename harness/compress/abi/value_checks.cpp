#include "kvc/value_checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

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
  std::map<std::string, std::vector<Noted*>> of_devices;
  for (auto* checks : of_sequences) {
    for (auto& check : checks->noted_) of_devices[check.holds.device().str()].push_back(&check);
  }
  for (const auto& [device, noted] : of_devices) {
    std::vector<at::Tensor> all;
    for (const auto* check : noted) all.push_back(check->holds);
    const auto here = at::stack(all).cpu();
    for (size_t i = 0; i < noted.size(); ++i) {
      noted[i]->is_read = true, noted[i]->result = here.const_data_ptr<bool>()[i];
    }
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
