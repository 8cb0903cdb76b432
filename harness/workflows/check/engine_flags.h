// What an inference engine's options mean here: read from configs/engines/*.yaml, which name the engines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "render/table.h"

namespace kvc {

// Settings (path=value) that put over a check's file what the engines would do: its compressors are the uncompressed cache
// and those of `as`, each "ENGINE: FLAGS", and its prefill is the engine's. Throws Error in one line for an unknown
// engine, flag or value, with the nearest known one, for what is not represented, with the reason, and for engines that
// differ in their prefill.
std::vector<std::string> engine_settings(const std::vector<std::string>& as, const std::filesystem::path& root);

// The compressor of a cache type that engines name ("q4_0"), as an experiment writes it in one line and labelled with the
// type: of K and of V where the engine has a flag for each. "" where no engine has it; throws Error where several have.
std::string compressor_of_type(const std::string& type, const std::filesystem::path& root);

// Settings that put over a check's file the uncompressed cache and these compressors, each written in one line.
std::string compressors_setting(const std::vector<std::string>& compressors);

// Each engine's flags and values, and the compressor that represents them, or why none does.
Table engine_table(const std::filesystem::path& root);

}  // namespace kvc
