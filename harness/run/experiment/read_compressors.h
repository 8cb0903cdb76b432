// The entries of an experiment's list of compressors.
#pragma once

#include <vector>

#include "experiment/experiment.h"
#include "experiment/isolation_choice.h"
#include "text/yaml_keys.h"

namespace kvc {

// The points of one entry: a name, a name with its options, `chain: [stages]` (with `block`), or `rules: {default,
// where}`. A list as an option's value is a sweep, in a part as elsewhere; several lists make their product, the last
// one varying fastest. Beside it a `label`, in which "{option}" stands for the option's value. Throws Error in one
// line.
std::vector<CompressorChoice> read_compressor(const YamlValue& entry);

// One compressor of a command line as an experiment writes it, "kivi" or "kivi: {bits: 2}"; what: "--compressor".
// Throws Error where it is a sweep or a composition.
CompressorChoice compressor_argument(const std::string& what, const std::string& text);

// The keys `isolation` and `python`.
void isolation_keys(YamlKeys& keys, IsolationChoice& isolation);

// The key `plugin_path`: folders relative to the file, or else to the folder of the process.
void plugin_path_key(YamlKeys& keys, std::vector<std::string>& folders);

// The key `compressors` of an experiment, a list of such entries, and the folder of the file where it stands.
void compressors_key(YamlKeys& keys, std::vector<CompressorChoice>& compressors, std::filesystem::path& folder);

// The keys of an entry that are none of a plugin, for a page of the docs.
void declare_compressor_keys(YamlKeys& keys);

// A label is one row of an experiment's tables: throws Error where two compressors have the same.
void check_labels(const std::vector<CompressorChoice>& compressors);

}  // namespace kvc
