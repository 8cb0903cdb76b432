// Where and with what a run was made.
#pragma once

#include <nlohmann/json.hpp>

namespace kvc {

// Host, CPU, cores, memory, system, compiler, LibTorch, build id, git state (KVC_GIT, set by the launcher).
nlohmann::json provenance();

}  // namespace kvc
