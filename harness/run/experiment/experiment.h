// An experiment as its YAML file tells it: which model, tasks and compressors, and how much of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contract/prefill_choice.h"
#include "contract/probe_settings.h"
#include "contract/quantization_choice.h"
#include "contract/run_kind.h"
#include "contract/sampling.h"
#include "experiment/isolation_choice.h"
#include "prompt/chat_settings.h"
#include "wire/compressor_choice.h"

namespace kvc {

class YamlKeys;
class YamlMap;

// What an experiment was read from.
struct ConfigFile {
  std::string name, sha256;            // of the file
  std::vector<std::string> overrides;  // put over it: "limit=5"
  nlohmann::json like;                 // [{name, sha256}] of the files beneath it; null: it is like none
};

// Of a search for one integer a layer.
struct SearchSettings {
  std::string option;           // an `integers` option of the experiment's one compressor; "": its only one
  std::vector<int64_t> levels;  // of those the option allows; {}: all of them
  double budget = 0.3;          // bytes held, of the same tokens at 16 bits
  int64_t n_candidates = 200;
  int64_t n_rescored = 10;  // best by likelihood, whose accuracy decides
  int64_t n_samples = 64;   // calibration samples of each task
  int64_t seed = 0;         // of random plans
};

constexpr double kDefaultPatience = 600;
constexpr char kAfterCompression[] = "after_compression";  // of the key `question`

// Of a task's windows of running text: see LikelihoodSpec.
struct WindowPlace {
  int64_t offset = 0, stride = 0;
};

struct Experiment;
// Of kind probe with a dump: the file of compressor i is this, then "-i.safetensors".
std::filesystem::path dump_prefix(const Experiment& experiment, const std::string& task, int64_t sample);

struct Experiment {
  std::string name;
  RunKind kind = RunKind::eval;      // never bench or capacity: see BenchExperiment
  ProbeSettings probe;               // of kind probe
  std::string dump;                  // of kind probe: a folder that gets the tensors; "": none
  SearchSettings search;             // of kind search
  std::string database;              // where its rows go unless the command line says; "": results/<name>.sqlite
  std::filesystem::path folder;      // of the file with its compressors: what their options name is relative to it
  ConfigFile config;                 // that it was read from
  std::string model_name;            // as written: a folder, a .gguf file, or a name
  std::filesystem::path model_path;  // where it lies; "": it is written as a path, from here or below the root
  nlohmann::json model_origin;       // what it was fetched from, by content; null: it is the user's own
  std::vector<std::string> tasks;    // suite/name, a whole suite, or a task file
  bool has_check_settings = false;   // it is a file of `kvc check`
  std::vector<CompressorChoice> compressors;
  std::optional<int64_t> limit;              // first samples of each task; all when absent
  double min_baseline = 0;                   // in %: tables leave out tasks on which full precision scores less
  std::optional<int64_t> max_prompt_tokens;  // longer prompts are cut, or refused, as their task says
  bool question_after = false;               // the prompt is compressed without its question, which is read behind it
  std::string dtype = "fp32";                // the model computes in it
  std::string weights = "dtype";             // of the layers' matrices: as dtype says, or int8
  QuantizationChoice quantization;
  std::vector<std::string> devices = {"cpu"};  // each takes an equal run of layers
  int64_t batch_size = 0;                      // sequences that a worker decodes together; 0: as many as memory holds
  bool share_prefix = true;                    // compute the K and V of the prefix that a task's prompts share once
  bool fan_out = true;                         // one prefill serves all compressors; results are the same without it
  Sampling sampling;                           // greedy unless it says otherwise
  PrefillChoice prefill;                       // exact unless it says otherwise
  int64_t workers = 1;                         // processes, each with its own copy of the model
  std::vector<int64_t> sizes;                  // tokens of made prompts that each compressor's size is measured at
  double patience = kDefaultPatience;          // seconds at one step after which a worker counts as stuck
  int64_t threads = 1;                         // of each worker
  int64_t seed = 0;                            // names the run's randomness
  ChatSettings chat;                           // of tasks whose prompt is a user's turn
  std::string system_message;                  // of these prompts; "" leaves the chat template's own default
  std::vector<std::filesystem::path> texts;    // that tasks which score running text read instead of their own
  std::map<std::string, WindowPlace> windows;  // of these, by task, where their windows lie; else one after another
  std::string data_dir;                        // datasets that are not the project's own; "" means KVC_DATA
  std::vector<std::string> plugin_path;        // folders searched before the built-in plugins
  IsolationChoice isolation;
  std::string allow_plugins;  // not the file's to say: a list of those that may be opened; "": all
};

// Reads the file, with `overrides` ("limit=5", "compressors.1.kivi.bits=4") put over it. A list as an option's value is
// a sweep; several lists make their product, the last one varying fastest. Throws Error in one line.
Experiment load_experiment(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// The keys of its file, and of the experiment what they stand for.
void declare_keys(YamlKeys& keys, Experiment& experiment);

// Where an experiment's rows go: what the command line says, or its file, or results/<name>.sqlite.
std::string database_of(const std::string& given, const std::string& of_file, const std::string& name);

// What the file asks for, by its key `kind`; eval where it has none. Throws Error in one line for any other.
RunKind experiment_kind(YamlMap& map);
RunKind experiment_kind(const std::filesystem::path& path, const std::vector<std::string>& overrides);

// Its keys over those of the file that `like` names, found beside it or as `kvc run` finds it; the overrides put over
// all. Throws Error where it is like another and has no name of its own: experiments of one name mix in a database.
YamlMap load_experiment_yaml(const std::filesystem::path& path, const std::vector<std::string>& overrides);

ConfigFile config_file(const YamlMap& map, const std::vector<std::string>& overrides);

// The keys that each kind has first: the experiment's name, and what it is like.
void name_keys(YamlKeys& keys, std::string& name);

void patience_key(YamlKeys& keys, double& patience);

}  // namespace kvc
