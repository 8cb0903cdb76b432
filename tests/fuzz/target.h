// What is fuzzed: a reader of files, with seeds to mutate and the promises that hold for all it accepts.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "mutator.h"

namespace kvc_fuzz {

// A reader accepted what it must not, or refused it in words that nobody can read.
class BrokenPromise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct Target {
  const char* name;
  uint64_t share;  // of the cases of all: as many more as it is faster than others, or matters more
  std::vector<nlohmann::json> seeds;
  std::vector<std::string> words;
  // Writes what stands beside the mutated file; once.
  void (*prepare)(const std::filesystem::path& dir);
  // Puts one mutated text into the folder.
  void (*write)(const std::filesystem::path& dir, std::string text, Mutator& mutator);
  // Reads the folder and uses what was read. Throws kvc::Error where it is refused.
  void (*read)(const std::filesystem::path& dir);
};

std::vector<Target> targets();

Target header_target();          // a .safetensors file: length, header, data
Target index_target();           // model.safetensors.index.json
Target tokenizer_target();       // tokenizer.json
Target special_target();         // tokenizer_config.json and its like
Target merges_target();          // merges.txt
Target pieces_target();          // tokenizer.model
Target config_target();          // config.json
Target generation_target();      // generation_config.json
Target gguf_target();            // a .gguf file: header, metadata, tensors
Target gguf_tokenizer_target();  // its tokenizer.ggml.*
Target experiment_target();      // an experiment's YAML
Target task_target();            // a task's, and its cases
Target chat_target();            // prompts/chat/*.yaml
Target template_target();        // a model's own chat template
Target dataset_target();         // what tasks' samples are read from, in all forms
Target predictions_target();     // what `kvc score` reads
Target lm_eval_target();         // results_*.json of lm-eval
Target kvpress_target();         // config.yaml and metrics.json of kvpress
Target database_target();        // a results database, shown

// YAML as JSON, whose values the mutator knows: JSON is YAML, too. Null where the file has what JSON has not.
nlohmann::json json_of_yaml(const std::filesystem::path& file);

// Encodes and decodes texts with the tokenizer of a model.
void read_tokenizer(const std::filesystem::path& model);

void write_file(const std::filesystem::path& path, const std::string& bytes);
void promise(bool holds, const std::string& what);

}  // namespace kvc_fuzz
