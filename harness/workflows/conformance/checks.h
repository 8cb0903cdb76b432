// What every plugin must do, whatever its method. Each check takes one plugin with fixed options and one model's shape
// and says what is wrong, one line each; no test framework, so that the program can run them on a plugin from
// elsewhere.
#pragma once

#include <string>
#include <vector>

#include "plugin_loader/plugin_library.h"

namespace kvc::conformance {

struct Subject {
  const PluginLibrary& plugin;
  nlohmann::json options;
  ModelShape model;
};

// Passed, unless there are complaints or a reason why the check does not apply.
struct Outcome {
  std::vector<std::string> complaints = {};
  std::string not_applicable = "";      // the reason
  std::vector<std::string> notes = {};  // facts for the report, not judged
};

struct Check {
  const char* name;
  const char* claim;  // what holds where it passes, one line
  Outcome (*run)(const Subject& subject);
};

// "heads 4/2, head_dim 64, window 45"
std::string to_string(const ModelShape& model);

// All checks below, in order.
const std::vector<Check>& all_checks();

// The check's outcome; what it throws is a complaint. Only a crash gets out.
Outcome run_check(const Check& check, const Subject& subject);

// Options to run the checks with: the defaults, each value of each listed option alone, one small case of each integer
// option that says how long tokens wait. Those the plugin refuses for this model are left out.
std::vector<nlohmann::json> option_sweep(const PluginLibrary& plugin, const ModelShape& model);

Outcome descriptor_is_complete(const Subject& subject);
Outcome models_are_refused_or_served(const Subject& subject);

Outcome shapes_are_as_declared(const Subject& subject);
Outcome short_prompts_are_served(const Subject& subject);
Outcome attention_equals_reference(const Subject& subject);
Outcome decoding_300_steps_holds_together(const Subject& subject);
Outcome prompts_come_in_chunks(const Subject& subject);           // where the plugin says so
Outcome hidden_tokens_are_dropped(const Subject& subject);        // where the plugin can
Outcome batched_attention_equals_single(const Subject& subject);  // where the plugin has it
Outcome joint_prefill_serves_all_layers(const Subject& subject);  // where the plugin has it

Outcome answers_come_from_what_is_held(const Subject& subject);
Outcome estimates_are_unbiased(const Subject& subject);
Outcome footprint_equals_allocated_bytes(const Subject& subject);
Outcome process_grows_by_the_footprint(const Subject& subject);
Outcome same_input_gives_same_bits(const Subject& subject);
Outcome two_threads_do_not_mix(const Subject& subject);
Outcome one_by_one_equals_at_once(const Subject& subject);  // where the plugin says so
Outcome prefix_is_local(const Subject& subject);            // where the plugin says so
Outcome lossy_means_lossy(const Subject& subject);
Outcome error_falls_as_bits_rise(const Subject& subject);  // where the plugin states rising bits

Outcome adversarial_inputs_stay_finite(const Subject& subject);
Outcome extreme_inputs_are_refused_or_finite(const Subject& subject);
Outcome bad_tokens_are_refused(const Subject& subject);
Outcome inputs_are_not_modified(const Subject& subject);
Outcome sixteen_bit_inputs_are_taken(const Subject& subject);
Outcome missing_queries_are_taken_or_refused(const Subject& subject);

}  // namespace kvc::conformance
