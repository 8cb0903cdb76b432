// A compressor as an experiment names it and as a worker builds it (compressors/build_compressor.h): a plugin with its
// options, or a composition of such.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compose/compose.h"

namespace kvc {

// One point of the sweep over a plugin's options, or over those of the parts of a composition.
struct CompressorChoice {
  // exact: K and V in the model's own type, of no plugin
  enum class Kind { plugin, chain, rules, sinks, recent, centered, exact };
  std::string plugin;      // its name; of a composition its kind
  nlohmann::json options;  // object: what the file gives; the plugin's defaults fill the rest
  std::string where;       // file:line:column, for messages
  Kind kind = Kind::plugin;
  std::vector<CompressorChoice> parts =
      {};  // of a chain its stages; of rules the default, then what each scope uses; else one
  std::vector<RuleScope> scopes = {};  // of rules
  std::optional<int64_t> block = {};   // of a chain
  int64_t n_exact = 0;                 // tokens, of sinks and recent
  std::string label = {};              // names its row in tables; "": the plugin and its options do
  std::string file = {};               // the plugin's .so or .py, once it was looked for
  std::string sha256 = {};             // of that file then; "": whatever it is
  std::string runtime = {};            // what else computed with it then (PluginLibrary); "": whatever it is
  bool in_own_process = false;         // of a plugin: its code runs in a process of its own
  std::string python = {};             // the interpreter of a plugin in Python; "": KVC_PYTHON, or python3
};

void to_json(nlohmann::json& json, const CompressorChoice& choice);
void from_json(const nlohmann::json& json, CompressorChoice& choice);

}  // namespace kvc
