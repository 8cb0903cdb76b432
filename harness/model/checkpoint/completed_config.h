// A config.json with what it leaves out: the text part of a model of images and text, and the library's defaults.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/json_reader.h"

namespace kvc {

// The key kDefaulted + "name" is there, null, where the value of "name" is the library's and not the file's.
inline constexpr const char* kDefaulted = "default of ";

// The settings of the decoder. wrapper: the class of images and text that it is a part of, or "".
// Throws Error naming file and value where architectures is no list.
nlohmann::json completed_config(const JsonObject& config, std::string& wrapper);

}  // namespace kvc
