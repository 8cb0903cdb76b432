// Where and with what a run was made.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "experiment/experiment.h"

namespace kvc {

// Host, CPU, cores, memory, GPUs, system, compiler, LibTorch, build id, git state (KVC_GIT, set by the launcher, or else
// the commit of the build).
nlohmann::json provenance();
// The same, and the experiment's file with those that it is like.
nlohmann::json provenance(const ConfigFile& config);

}  // namespace kvc
