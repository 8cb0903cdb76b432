// What sliding windows spare an inference engine.
#pragma once

#include <string>

#include "checkpoint/model_config.h"

namespace kvc {

// KV at 16 bits of n_tokens in layers with and without a sliding window, as an engine stores them, in one line; "" where
// no layer has a window.
std::string window_text(const ModelConfig& config, int64_t n_tokens);

}  // namespace kvc
