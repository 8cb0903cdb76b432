// What every plugin must do, whatever its method. Each check takes one plugin with fixed options and one model's shape
// and returns what is wrong, one line each; no test framework, so that a program can run them on a plugin from
// elsewhere.
#pragma once

#include <string>
#include <vector>

#include "inputs.h"
#include "plugin/plugin_library.h"

namespace kvc::conformance {

struct Subject {
  const PluginLibrary& plugin;
  nlohmann::json options;
  ModelShape model;
};

using Complaints = std::vector<std::string>;

struct Check {
  const char* name;
  Complaints (*run)(const Subject& subject);
};

// All checks below, in order.
const std::vector<Check>& all_checks();

// Options to run the checks with: the defaults, each value of each listed option alone, one small case of each integer
// option that says how long tokens wait. Those the plugin refuses for this model are left out.
std::vector<nlohmann::json> option_sweep(const PluginLibrary& plugin, const ModelShape& model);

Complaints shapes_are_as_declared(const Subject& subject);
Complaints attention_equals_reference(const Subject& subject);
Complaints decoding_300_steps_holds_together(const Subject& subject);
Complaints footprint_equals_allocated_bytes(const Subject& subject);
Complaints same_input_gives_same_bits(const Subject& subject);
Complaints one_by_one_equals_at_once(const Subject& subject);  // where the plugin says so
Complaints prefix_is_local(const Subject& subject);            // where the plugin says so
Complaints adversarial_inputs_stay_finite(const Subject& subject);
Complaints bad_tokens_are_refused(const Subject& subject);
Complaints inputs_are_not_modified(const Subject& subject);
Complaints sixteen_bit_inputs_are_taken(const Subject& subject);
Complaints batched_attention_equals_single(const Subject& subject);  // where the plugin has it
Complaints lossy_means_lossy(const Subject& subject);
Complaints error_falls_as_bits_rise(const Subject& subject);

}  // namespace kvc::conformance
