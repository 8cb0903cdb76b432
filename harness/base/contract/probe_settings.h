// What a probe is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/measurement.h"

namespace kvc {

struct ProbeSettings {
  std::vector<std::string> measures;  // of probe_measures()
  int64_t n_queries = 16;             // of the prompt's last tokens, for what attention makes of K and V
};

// All measures, by name; design.md says what each is.
const std::vector<std::string>& probe_measures();

// The values that were asked for; others are dropped.
class ProbeValues {
 public:
  explicit ProbeValues(const std::vector<std::string>& measures) : measures_(measures) {}
  bool wants(const std::string& measure) const;
  bool wants_any(const std::vector<std::string>& measures) const;
  void add(ProbeRow value);
  std::vector<ProbeRow> take() { return std::move(values_); }

 private:
  std::vector<std::string> measures_;
  std::vector<ProbeRow> values_;
};

}  // namespace kvc
