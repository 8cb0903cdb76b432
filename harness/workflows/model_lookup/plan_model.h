// `kvc doctor --model CONFIG.json`: what a model of these sizes needs, before any weight is downloaded.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvc {

struct PlanArguments {
  std::vector<std::string> compressors;  // as experiments write them, besides every plugin with its defaults
  std::vector<std::string> options;      // of these, in their order: JSON objects over theirs; or none
  std::vector<std::string> plugin_path;  // folders searched before the built-in plugins
  std::string weights = "16bit";         // fp32, 16bit, int8: what the memory holds beside the caches
  double reserve_gb = 2.0;               // for workspace
  int64_t tokens = 4096;                 // of each sequence of a batch
};

// A config.json alone, or a model folder without weights.
bool is_only_planned(const std::filesystem::path& model);

// Prints the plan; throws Error on a config that is not supported, an unknown compressor or option.
void print_plan(const std::filesystem::path& model, const PlanArguments& arguments);

}  // namespace kvc
