#include "kvc/value_checks.h"

#include <ATen/ATen.h>

namespace kvc {
namespace {

thread_local ValueChecks* collecting = nullptr;

}  // namespace

ValueChecks::Collecting::Collecting(ValueChecks& checks) : before_(std::exchange(collecting, &checks)) {}
ValueChecks::Collecting::~Collecting() { collecting = before_; }

bool ValueChecks::take(const at::Tensor& holds, const std::function<std::string()>& complaint) {
  if (!collecting) return false;
  collecting->noted_.push_back({holds.all(), complaint});
  return true;
}

bool ValueChecks::all_hold(const at::Tensor& holds) { return holds.all().item<bool>(); }

void ValueChecks::settle() {
  const auto noted = std::exchange(noted_, {});
  if (noted.empty()) return;
  std::vector<at::Tensor> all;
  for (const auto& check : noted) all.push_back(check.holds);
  const auto here = at::stack(all).cpu();
  for (size_t i = 0; i < noted.size(); ++i) {
    if (!here.const_data_ptr<bool>()[i]) throw Error(noted[i].complaint());
  }
}

}  // namespace kvc
