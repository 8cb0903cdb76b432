// The cells of an experiment's grid, each with its content hash, checked as far as can be before anything runs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "experiment/paths.h"
#include "kvc/compressor.h"
#include "prompt/model_chat.h"
#include "store/result_store.h"
#include "task/dataset.h"
#include "wire/messages.h"

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
  ModelShape shape;
  int64_t vocab_size = 0;
  std::vector<int64_t> eos_ids;  // the model's own
  std::vector<Task> tasks;
  struct Cell {
    size_t task;
    int compressor;
    CellRecord record;
    bool runs = true;                  // false: of a grid that is a part, and not in it
    std::set<int64_t> elsewhere = {};  // samples that another database has
  };
  std::vector<std::string> left_out;  // tasks that cannot be read, and why, where others can
  std::vector<Cell> cells;            // task by task, each with every compressor in order
  bool is_part = false;               // of its experiment: keep_cells() has left it some
};

// Reads the tasks and their data, opens the plugins, checks options and model, and hashes what a generation depends on:
// weights, tokenizer, task, prompt, data, plugin binary, options and generation settings, not the scoring. Throws Error
// in one line. The hashes of large files of weights are remembered from run to run, unless verify_hashes.
Grid expand_grid(const Experiment& experiment, const Paths& paths, bool verify_hashes = false);

struct KeptCell {
  std::string key;
  std::vector<int64_t> elsewhere;  // its samples that are not run
};

// Leaves these cells, which a run does in their order, task by task; tasks without any go. Throws Error with the first
// key that is none of the grid's.
void keep_cells(const std::vector<KeptCell>& kept, Grid& grid);

}  // namespace kvc
