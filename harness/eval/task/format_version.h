// The `version` of the YAML files of tasks, groups, scoring and chat templates.
#pragma once

#include <cstdint>

namespace kvc {

constexpr int64_t kFormatVersion = 1;

}  // namespace kvc
