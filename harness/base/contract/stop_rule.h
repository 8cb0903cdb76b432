// When an answer ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvc {

struct StopRule {
  std::vector<int64_t> eos_ids = {};           // in a job: in addition to the model's own
  std::vector<std::string> stop_strings = {};  // text is cut before the first that occurs
  int64_t max_new_tokens = 256;
  int64_t min_new_tokens = 0;  // none of eos_ids is chosen before
};

}  // namespace kvc
