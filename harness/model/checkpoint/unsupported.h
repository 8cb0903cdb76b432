// Checkpoints that are known and not computed here: what of them is missing, and what to use instead.
#pragma once

#include "checkpoint/architecture.h"
#include "text/json_reader.h"

namespace kvc {

// Throws Error naming file, class and what is missing, if `architectures` holds a class of a known kind; returns for
// all others.
void refuse_known_class(const JsonObject& config);

// Throws Error where the weights are quantized in a format that is not read (GPTQ, AWQ, bitsandbytes, fp8, ...).
void refuse_quantized(const JsonObject& config, const Architecture& architecture);

}  // namespace kvc
