#include "experiment/experiment.h"

#include <algorithm>

#include "experiment/paths.h"
#include "experiment/read_compressors.h"
#include "experiment/read_device.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "text/yaml_keys.h"
#include "text/yaml_write.h"

namespace kvc {
namespace {

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> steps;
  size_t start = 0;
  for (size_t dot; (dot = path.find('.', start)) != std::string::npos; start = dot + 1) {
    steps.push_back(path.substr(start, dot - start));
  }
  steps.push_back(path.substr(start));
  return steps;
}

// A copy without the places of the text it was parsed from: they mean nothing in the experiment's file.
YAML::Node without_marks(const YAML::Node& node) {
  YAML::Node copy(node.Type());
  for (const auto& item : node) {
    if (node.IsSequence()) copy.push_back(without_marks(item));
    if (node.IsMap()) copy[item.first.Scalar()] = without_marks(item.second);
  }
  if (node.IsScalar()) copy = node.Scalar();
  copy.SetTag(node.Tag());
  return copy;
}

// The file that an override is put into: for a whole key the experiment's own, below a key the one that has it.
YAML::Node overridden(const YamlMap& map, const std::vector<std::string>& steps) {
  for (const auto& layer : map.layers()) {
    if (steps.size() > 1 && layer.node()[steps[0]]) return layer.node();
  }
  return map.value().node();
}

void put_over(const YamlMap& map, const std::string& override) {
  const auto equals = override.find('=');
  KVC_CHECK(equals != std::string::npos && equals > 0, "--set '", override, "': expected path=value");
  const auto steps = split_path(override.substr(0, equals));
  KVC_CHECK(steps[0] != "like", "--set '", override, "': what a file is like stands in it, expected another key");
  YAML::Node value;
  try {
    value.reset(without_marks(YAML::Load(override.substr(equals + 1))));
  } catch (const YAML::Exception& e) {
    throw Error(concat("--set '", override, "': the value is no YAML: ", e.msg));
  }
  YAML::Node node;
  node.reset(overridden(map, steps));
  for (size_t i = 0; i < steps.size(); ++i) {
    YAML::Node next;
    if (node.IsSequence()) {
      size_t index = node.size();
      if (steps[i].find_first_not_of("0123456789") == std::string::npos) index = std::stoul(steps[i].substr(0, 9));
      KVC_CHECK(index < node.size(), "--set '", override, "': '", steps[i], "' is no index of a list of ", node.size());
      next.reset(node[index]);
    } else {
      KVC_CHECK(node.IsMap(), "--set '", override, "': there is nothing below '", i ? steps[i - 1] : "", "'");
      if (i + 1 < steps.size()) {
        KVC_CHECK(node[steps[i]], "--set '", override, "': no key '", steps[i], "'");
      }
      next.reset(node[steps[i]]);
    }
    if (i + 1 == steps.size()) {
      if (node.IsSequence())
        node[std::stoul(steps[i])] = value;
      else
        node[steps[i]] = value;
    }
    node.reset(next);
  }
}

std::vector<std::string> read_devices(const YamlValue& value) {
  const auto devices = value.is_scalar() ? std::vector{value.string()} : value.strings();
  if (devices.empty()) value.fail("device is an empty list, expected ", kDevices);
  for (const auto& device : devices) read_device(value, device);
  return devices;
}

void sampling_keys(YamlKeys& keys, Sampling& sampling) {
  sampling.temperature = 1;  // of a map that does not say it
  keys.real({"temperature", "divides the logits; 0: the most likely token"}, sampling.temperature, 0, 100);
  keys.integer({"top_k", "draw from so many most likely tokens; 0: all"}, sampling.top_k, 0,
               std::numeric_limits<int32_t>::max());
  keys.real({"top_p", "draw from the fewest most likely tokens that have this probability together"}, sampling.top_p, 0,
            1);
  keys.integer({"seed", "of the draws, beside the experiment's"}, sampling.seed, 0);
}

// 16 is a word for none.
void bits_key(YamlKeys& keys, const char* help, const std::vector<int64_t>& allowed, int64_t& bits) {
  std::vector<std::string> words{"16"};
  for (const int64_t n : allowed) words.push_back(concat(n));
  keys.other({"bits", help, kRequired}, join(words), [&](const YamlValue& value) {
    const int64_t given = value.integer();
    if (std::find(allowed.begin(), allowed.end(), given) == allowed.end() && given != 16) {
      value.fail(value.name(), " is ", given, ", expected ", join(words));
    }
    bits = given == 16 ? 0 : given;
  });
}

void weight_keys(YamlKeys& keys, QuantizationChoice& quantization) {
  bits_key(keys, "of each number", {8, 4, 3, 2}, quantization.weight_bits);
  keys.other({"group_size", "columns that share a scale", false, "row"}, "row, or integer, at least 1",
             [&](const YamlValue& value) {
               const bool is_row = value.is_scalar() && value.string() == "row";
               quantization.group_size = is_row ? 0 : value.integer(1);
             });
}

void model_keys(YamlKeys& keys, Experiment& experiment) {
  auto& quantization = experiment.quantization;
  keys.choice({"dtype", "the model computes in it"}, experiment.dtype, {"fp32", "fp16", "bf16"});
  keys.other(
      {"weights", "of the layers' matrices: as dtype says, 8 bits a row, or simulated bits", false, "dtype"},
      "dtype, int8, or a map",
      [&](const YamlValue& value) {
        if (value.is_scalar()) {
          experiment.weights = value.choice({"dtype", "int8"});
        } else {
          read_keys(value.map(), [&](YamlKeys& inner) { weight_keys(inner, quantization); });
        }
      },
      [&](YamlKeys& inner) { weight_keys(inner, quantization); });
  keys.map({"activations", "what the layers' matrices read, quantized by token"}, [&](YamlKeys& inner) {
    bits_key(inner, "of each number", {8, 7, 6, 5, 4, 3, 2}, quantization.activation_bits);
  });
  keys.map(
      {"smooth_quant", "SmoothQuant: channels of activations divided, of weights multiplied"}, [&](YamlKeys& inner) {
        inner.real({"alpha", "share of the activations' range that moves to the weights"}, quantization.alpha, 0, 1);
        inner.text({"calibration", "the file that `kvc smooth` made", kRequired}, quantization.smoothing_file);
      });
}

void machine_keys(YamlKeys& keys, Experiment& experiment) {
  keys.other({"device", "where the model is: each of several takes an equal run of layers", false, "cpu"},
             concat(kDevices, ", or a list"),
             [&](const YamlValue& value) { experiment.devices = read_devices(value); });
  keys.other({"batch_size", "sequences that a worker decodes together; auto: as many as memory holds", false, "auto"},
             "auto, or integer, 1 to 4096", [&](const YamlValue& value) {
               const bool is_auto = value.is_scalar() && value.string() == "auto";
               experiment.batch_size = is_auto ? 0 : value.integer(1, 4096);
             });
  keys.boolean({"share_prefix", "compute K and V of the prefix that a task's prompts share once"},
               experiment.share_prefix);
  keys.boolean({"fan_out", "one prefill serves all compressors; results are the same without it"}, experiment.fan_out);
  keys.map({"sampling", "draws tokens; greedy without it"},
           [&](YamlKeys& inner) { sampling_keys(inner, experiment.sampling); });
  keys.integer({"workers", "processes, each with its own copy of the model"}, experiment.workers, 1, 256);
  patience_key(keys, experiment.patience);
  keys.integer({"threads", "of each worker"}, experiment.threads, 1, 1024);
  keys.integer({"seed", "names the run's randomness"}, experiment.seed, 0);
}

void probe_keys(YamlKeys& keys, Experiment& experiment) {
  auto& measures = experiment.probe.measures;
  keys.other({"measures", "what is computed", false, "all"}, concat("list of: ", join(probe_measures())),
             [&](const YamlValue& value) {
               measures.clear();
               for (const auto& measure : value.sequence()) measures.push_back(measure.choice(probe_measures()));
               if (measures.empty()) value.fail("probe.measures is empty, expected at least one");
             });
  keys.integer({"queries", "of the prompt's last tokens, for what attention makes of K and V"},
               experiment.probe.n_queries, 1, 4096);
  keys.text({"dump", "a folder that gets every tensor that the measures are computed from"}, experiment.dump);
}

void search_keys(YamlKeys& keys, SearchSettings& search) {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  keys.real({"budget", "bytes that a candidate may hold, of those at 16 bits", kRequired}, search.budget, 0, 1);
  keys.text({"option", "of the one compressor, which takes one integer a layer", false, "its only one"}, search.option);
  keys.other({"levels", "what a layer may get", false, "all that the option allows"}, "list of integers",
             [&](const YamlValue& value) {
               for (const auto& level : value.sequence()) search.levels.push_back(level.integer());
             });
  keys.integer({"candidates", "lists that are tried"}, search.n_candidates, 1, kMany);
  keys.integer({"rescore", "of them, best by likelihood, whose accuracy decides"}, search.n_rescored, 1, kMany);
  keys.integer({"samples", "of each task, to calibrate with"}, search.n_samples, 1, kMany);
  keys.integer({"seed", "of the random candidates"}, search.seed, 0, kMany);
}

// For values that are of one kind of experiment.
YamlKeys::Read only_of(RunKind kind, const Experiment& experiment) {
  return [&experiment, kind](const YamlValue& value) {
    if (experiment.kind == kind) return;
    value.fail(to_string(kind), " is of kind ", to_string(kind), ", and kind is ", to_string(experiment.kind));
  };
}

Experiment read_experiment(const std::filesystem::path& path, YamlMap map) {
  Experiment experiment;
  experiment.name = path.stem().string();
  read_keys(map, [&](YamlKeys& keys) { declare_keys(keys, experiment); });
  if (experiment.tasks.empty()) map.required("tasks").fail("tasks is empty, expected at least one task");
  if (experiment.compressors.empty()) map.required("compressors").fail("compressors is empty, expected at least one");
  check_labels(experiment.compressors);
  return experiment;
}

// Files of tasks stand beside the experiment, or where a command line would look for them.
std::string beside_file(const YamlValue& task) {
  const auto name = task.string();
  const auto beside = task.folder() / name;
  std::error_code refused;  // as of a name that is too long
  const bool is_file = name.ends_with(".yaml") || name.ends_with(".txt");
  return is_file && std::filesystem::exists(beside, refused) ? beside.string() : name;
}

YamlValue load_like(const YamlValue& like) {
  const auto beside = (like.folder() / like.string()).lexically_normal();
  std::error_code refused;  // as of a name that is too long
  const auto file = std::filesystem::exists(beside, refused) ? beside : below_root(find_paths(), like.string());
  if (!is_file(file)) like.fail("like is ", like.found(), ", which is no file");
  return load_yaml(file);
}

}  // namespace

void name_keys(YamlKeys& keys, std::string& name) {
  keys.text({"name", "of the experiment, by which tables name its cells", false, "the file's name"}, name);
  keys.then([&name](YamlMap& map) {                             // results/NAME.sqlite
    if (name.find_first_of("/@") == std::string::npos) return;  // @: what the store puts behind it (put_aside)
    map.required("name").fail("name is ", in_quotes(name), ", expected one without '/' and '@'");
  });
  keys.other({"like", "an experiment whose keys count where this file, which needs a `name`, has none of that name"},
             "file", [](const YamlValue&) {});
}

void patience_key(YamlKeys& keys, double& patience) {
  keys.real({"patience",
             "seconds that a worker may be at one step, such as a call of a plugin, before it is stopped; ten "
             "times the longest step so far, where that is more"},
            patience, 0.1);
}

void declare_keys(YamlKeys& keys, Experiment& experiment) {
  name_keys(keys, experiment.name);
  auto kind = to_string(experiment.kind);
  keys.choice({"kind",
               "what is done: tasks answered, caches looked into, times taken, limits found, one integer a layer "
               "searched"},
              kind, run_kinds());
  experiment.kind = run_kind(kind);
  experiment.probe.measures = probe_measures();
  keys.map(
      {"probe", "of kind probe"}, [&](YamlKeys& inner) { probe_keys(inner, experiment); },
      only_of(RunKind::probe, experiment));
  keys.map(
      {"search", "of kind search, which needs it", experiment.kind == RunKind::search},
      [&](YamlKeys& inner) { search_keys(inner, experiment.search); }, only_of(RunKind::search, experiment));
  keys.text({"database", "where its rows go", false, "results/NAME.sqlite"}, experiment.database);
  keys.text({"model", "a folder, a .gguf file, or a name of models/catalog.yaml", kRequired}, experiment.model);
  keys.other(
      {"tasks", "suite/name, a whole suite, a pattern as demo/*, a task file, or a list of such in a .txt", kRequired},
      "list of texts", [&](const YamlValue& value) {
        for (const auto& item : value.sequence()) experiment.tasks.push_back(beside_file(item));
      });
  compressors_key(keys, experiment.compressors, experiment.folder);
  keys.integer(
      {"limit", "samples of each task: lengths and depths alike where it has them, else the first", false, "all"},
      experiment.limit, 1);
  keys.integer({"max_prompt_tokens", "longer prompts are cut, or refused, as their task says", false, "the context"},
               experiment.max_prompt_tokens, 2);
  std::string question = "in_prompt";
  keys.choice({"question", "in_prompt: compressed with the rest; after_compression: not seen by it, read afterwards"},
              question, {"in_prompt", kAfterCompression});
  experiment.question_after = question == kAfterCompression;
  experiment.sizes = {4096, 32768};
  keys.other({"sizes", "tokens of made prompts whose caches' bytes are measured, once a compressor; []: none", false,
              "[4096, 32768]"},
             "list of integers, 1 to 1048576", [&](const YamlValue& value) {
               experiment.sizes.clear();
               for (const auto& size : value.sequence()) experiment.sizes.push_back(size.integer(1, 1048576));
             });
  model_keys(keys, experiment);
  machine_keys(keys, experiment);
  keys.text({"chat_template",
             "of tasks whose prompt is a user's turn: auto (the model's own, where it has one), own, none, or a name of "
             "prompts/chat"},
            experiment.chat.form);
  keys.other({"chat_options", "variables of the chat template, as enable_thinking: false", false, "none"}, "map",
             [&](const YamlValue& value) { experiment.chat.options = read_chat_options(value); });
  keys.other({"chat_date", "what a chat template that asks for the date is told", false, kChatDate},
             "day, as 2024-07-26", [&](const YamlValue& value) { experiment.chat.date = read_chat_date(value); });
  keys.text({"system_message", "of these prompts", false, "the chat template's own"}, experiment.system_message);
  keys.text({"data_dir", "a folder with the datasets that are not the project's own", false, "KVC_DATA"},
            experiment.data_dir);
  keys.other({"text", "a file that tasks which read texts read instead of their own"}, "file",
             [&](const YamlValue& value) { experiment.text = value.folder() / value.string(); });
  keys.other({"check", "bounds of `kvc check`; a run does not see it"}, "map", [](const YamlValue&) {});
  plugin_path_key(keys, experiment.plugin_path);
}

Experiment load_experiment(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const auto map = load_experiment_yaml(path, overrides);
  try {
    auto experiment = read_experiment(path, map);
    experiment.config = config_file(map, overrides);
    return experiment;
  } catch (const Error& e) {
    if (overrides.empty()) throw;
    throw Error(concat(e.what(), " (with --set ", join(overrides, ", "), ")"));
  }
}

ConfigFile config_file(const YamlMap& map, const std::vector<std::string>& overrides) {
  ConfigFile config;
  config.overrides = overrides;
  for (const auto& layer : map.layers()) {
    const auto name = std::filesystem::path(layer.file()).filename().string(), sha256 = sha256_file(layer.file());
    if (config.name.empty()) {
      config.name = name, config.sha256 = sha256;
    } else {
      config.like.push_back({{"name", name}, {"sha256", sha256}});
    }
  }
  return config;
}

YamlMap load_experiment_yaml(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto map = load_yaml(path).map();
  const auto like = map.optional("like");
  if (like && !map.has("name")) like->fail("the file has no name of its own: experiments of one name would mix");
  map.lay_over("experiments", load_like);
  for (const auto& override : overrides) put_over(map, override);
  return map;
}

std::string database_of(const std::string& given, const std::string& of_file, const std::string& name) {
  return !given.empty() ? given : !of_file.empty() ? of_file : "results/" + name + ".sqlite";
}

RunKind experiment_kind(YamlMap& map) { return run_kind(map.optional_choice("kind", run_kinds(), "eval")); }

RunKind experiment_kind(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto map = load_experiment_yaml(path, overrides);
  return experiment_kind(map);
}

}  // namespace kvc
