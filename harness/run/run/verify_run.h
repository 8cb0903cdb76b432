// Samples of a stored cell, an evaluation or a probe, computed again as a run computes them, and compared with what is
// stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiment/paths.h"
#include "store/result_store.h"

namespace kvc {

struct VerifyOptions {
  int64_t n_samples = 5;  // at most; drawn without repetition
  int64_t seed = 0;
  std::string data_dir;                  // "": KVC_DATA
  std::vector<std::string> plugin_path;  // folders searched first
  // Where the cell's model lies, by its name and its origin (null: the user's own); without it the name is a path.
  std::function<std::filesystem::path(const std::string& model, const nlohmann::json& origin)> find_model = {};
};

struct Verification {
  std::string cell_key, what;            // the cell's key; task, plugin and options in words
  std::vector<int64_t> samples;          // that were computed again
  std::vector<std::string> differences;  // one line each: what, stored, now; of a probe's values one for each measure
  std::vector<std::string> notes;        // what is not as it was and changed none of these
};

// `key`: a cell's, or what its key alone begins with. Throws Error where there is no such cell, it is a bench or a
// capacity, it has no finished sample, or what it was made from is not to be had.
Verification verify_run(ResultStore& store, const std::string& key, const VerifyOptions& options, const Paths& paths);

}  // namespace kvc
