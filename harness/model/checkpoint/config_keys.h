// Keys of config.json that nothing here reads: which of them, at which values, change nothing that is computed.
#pragma once

#include <set>
#include <string>

#include "text/json_reader.h"

namespace kvc {

// Throws Error naming place, key and value where a key is neither in `read`, nor one that tools and training write for
// themselves, nor at a value that switches it off (null, false, 0, empty; of a factor 1).
void refuse_unread(const JsonObject& object, const std::set<std::string>& read);

// Whether a key that is not read multiplies by its value, by its name: "residual_multiplier", "logit_scale".
bool is_factor(const std::string& name);

}  // namespace kvc
