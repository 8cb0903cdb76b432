// The cells of an experiment's grid, each with its content hash, checked as far as can be before anything runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kvc/compressor.h"
#include "run/experiment.h"
#include "run/model_chat.h"
#include "run/paths.h"
#include "run/worker.h"
#include "store/result_store.h"
#include "task/dataset.h"

namespace kvc {

struct Grid {
  struct Task {
    TaskSpec spec;
    Dataset data;                                         // its samples cut to the limit
    std::string spec_json;                                // of the whole task: a limit does not change what a cell is
    std::map<int64_t, std::vector<std::string>> buckets;  // by sample, those behind the limit too; none: in no bucket
    std::optional<ChatTemplate> chat;                     // around each prompt
    std::string system_message;                           // in it
    int64_t reference = -1;                               // of the worker's; -1: a task that names none
  };
  WorkerSetUp worker;   // model, types and compressors
  int64_t context = 0;  // tokens that the model holds
  std::vector<Task> tasks;
  struct Cell {
    size_t task;
    int compressor;
    CellRecord record;
  };
  std::vector<std::string> left_out;  // tasks that cannot be read, and why, where others can
  std::vector<Cell> cells;            // task by task, each with every compressor in order
};

// Reads the tasks and their data, opens the plugins, checks options and model, and hashes what a generation depends on:
// weights, tokenizer, task, prompt, data, plugin binary, options and generation settings, not the scoring. Throws Error
// in one line. The hashes of large files of weights are remembered from run to run, unless verify_hashes.
Grid expand_grid(const Experiment& experiment, const Paths& paths, bool verify_hashes = false);

// The folders to look for plugins in, in order: the given ones, then the plugins built with this program.
std::vector<std::filesystem::path> plugin_folders(const std::vector<std::string>& searched_first, const Paths& paths);

// The plugin of that name in the first folder that has one. Throws Error with the nearest and the known names.
std::filesystem::path find_plugin(const std::string& name, const std::vector<std::filesystem::path>& folders);

}  // namespace kvc
