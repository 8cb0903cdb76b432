// A plugin inside a composed compressor, as it is built and as the database holds it; the first is stage 1.
#pragma once

#include <string>

namespace kvc {

struct StageRow {
  std::string plugin, plugin_sha256;
  std::string place;  // what it is there: "stage 2", "layers 0-1, v"
  std::string options_json;
};

}  // namespace kvc
