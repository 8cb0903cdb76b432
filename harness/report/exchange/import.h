// Others' results as rows of external_result, to stand beside our own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

struct Imported {
  int64_t n_new = 0, n_changed = 0, n_equal = 0;  // values
  int64_t n_left_out = 0;                         // values of whole tasks whose samples say the same
  std::vector<std::string> skipped;               // why, of each file, task or metric that was: one line that names it
  void add(const Imported& other);
};

// Told while a file is read, how much of it is.
using OnBytes = std::function<void(const std::filesystem::path& file, int64_t n_bytes)>;

// Both below: each file is a transaction of its own, and a bad one is skipped. Throws Error where there is none.

// A results file of lm-eval (0.3 to 0.4.13), a file of its samples, or a folder with such files at any depth, whatever
// they are called; other files are told as not read. Of samples, whose file may have any size, the means of each metric
// and filter, with their standard errors. source 'lm-eval', item the file's name, model and method as the file names
// them (method: the compressor of our own exports, else lm-eval's kind of model: "hf"), options the model's arguments,
// column_name "task metric,filter", of a metric without a filter "task metric,none"; values as lm-eval has them
// (shares, not percent), NULL of NaN and "N/A". A metric of a task whose samples are
// there as well is stored once, as the samples' mean, if the two are equal.
Imported import_lm_eval(Database& db, const std::filesystem::path& path, const OnBytes& on_bytes = {});

// A folder that kvpress's evaluation wrote (config.yaml, metrics.json), or one with such folders in it. item is the
// dataset, method the press, options the other settings that can change a number, column_name the metric's path. Of two
// folders with the same of these the first in order is read.
Imported import_kvpress(Database& db, const std::filesystem::path& folder);

}  // namespace kvc
