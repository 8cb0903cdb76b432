// The launch that a step's writes are made by.
#pragma once

#include "kvc/step_writes.h"

namespace kvc {

StepWrites::Launch launch_of_writes(at::Device device);

}  // namespace kvc
