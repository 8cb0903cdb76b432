// How many kernels have run in emulation since the program began: one number for all libraries that have kernels.
#pragma once

#include <atomic>
#include <cstdint>

#include "kvc/check.h"

namespace kvc {

KVC_EXPORT std::atomic<int64_t>& emulated_launches();

}  // namespace kvc
