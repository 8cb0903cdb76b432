// A database's samples in the files of others: lm-eval's, and flat ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

struct LmEvalExport {
  std::filesystem::path folder;                        // of one compressor on one model
  int64_t n_tasks = 0, n_samples = 0, n_left_out = 0;  // left out: failed samples
};

// Writes <out>/<model and compressor>/results_<time>.json and samples_<task>_<time>.jsonl as lm-eval 0.4 does, one
// folder for each compressor and model. A task "demo/lookup" is called "demo__lookup" there and keeps its name as
// alias; an extractor is a filter. Extra keys: kv_compression, and of samples kv_bytes, n_prompt_tokens, n_gen_tokens,
// stop_reason, truncated. `seconds` is the time since 1970 that names the files. Throws Error for an unknown
// experiment, and where a file exists.
std::vector<LmEvalExport> export_lm_eval(Database& db, const std::string& experiment, const std::filesystem::path& out,
                                         double seconds);

// One line a sample: its cell's names and every column but the prompt's text (csv); all of it with the prompt and every
// extractor's answer and score (jsonl). Returns the number of samples.
int64_t export_csv(Database& db, const std::string& experiment, const std::filesystem::path& out);
int64_t export_jsonl(Database& db, const std::string& experiment, const std::filesystem::path& out);

}  // namespace kvc
