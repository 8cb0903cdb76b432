// The options and models a plugin is checked with.
#pragma once

#include <optional>

#include "conformance/checks.h"

namespace kvc::conformance {

struct Case {
  nlohmann::json options;
  ModelShape model;
  std::string refusal;  // why the plugin does not take this model with these options; empty: all checks run

  std::string label() const;  // "bits 4, heads 4/2, head_dim 64"
};

// Multi-head, grouped and multi-query attention, heads that are no power of two, head_dims 16 to 128, a sliding window.
const std::vector<ModelShape>& model_shapes();

// With options given: these on every shape. Without: the option sweep on the first shape, and its first options on
// each other shape. Throws Error where the plugin refuses the given options themselves.
std::vector<Case> cases_of(const PluginLibrary& plugin, const std::optional<nlohmann::json>& given);

}  // namespace kvc::conformance
