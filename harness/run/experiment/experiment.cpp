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

constexpr size_t kLongestName = 200;  // bytes: a file name's 255, less what is appended

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
  KVC_CHECK(steps[0] != "like", "--set '", override, "': `like` can only be set in the file, expected another key");
  const auto value =
      without_marks(parse_yaml_value(concat("--set '", override, "'"), override.substr(equals + 1)).node());
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
  keys.integer({"top_k", "sample from the k most likely tokens; 0: all"}, sampling.top_k, 0,
               std::numeric_limits<int32_t>::max());
  keys.real({"top_p", "sample from the smallest set of most likely tokens with this total probability"}, sampling.top_p,
            0, 1);
  keys.integer({"seed", "seed of the sampling, combined with the experiment's `seed`"}, sampling.seed, 0);
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
  bits_key(keys, "bits per weight", {8, 4, 3, 2}, quantization.weight_bits);
  keys.other({"group_size", "columns per scale", false, "row"}, "row, or integer, at least 1",
             [&](const YamlValue& value) {
               const bool is_row = value.is_scalar() && value.string() == "row";
               quantization.group_size = is_row ? 0 : value.integer(1);
             });
}

void model_keys(YamlKeys& keys, Experiment& experiment) {
  auto& quantization = experiment.quantization;
  keys.choice({"dtype", "the model's compute type"}, experiment.dtype, {"fp32", "fp16", "bf16"});
  keys.other(
      {"weights", "storage of the layers' weight matrices: as `dtype`, 8-bit per row, or simulated quantization", false,
       "dtype"},
      "dtype, int8, or a map",
      [&](const YamlValue& value) {
        if (value.is_scalar()) {
          experiment.weights = value.choice({"dtype", "int8"});
        } else {
          read_keys(value.map(), [&](YamlKeys& inner) { weight_keys(inner, quantization); });
        }
      },
      [&](YamlKeys& inner) { weight_keys(inner, quantization); });
  keys.map({"activations", "simulated per-token quantization of the inputs of the layers' matrices"},
           [&](YamlKeys& inner) {
             bits_key(inner, "bits per value", {8, 7, 6, 5, 4, 3, 2}, quantization.activation_bits);
           });
  keys.map(
      {"smooth_quant", "SmoothQuant: divide activation channels by a factor, multiply weight channels by it"},
      [&](YamlKeys& inner) {
        inner.real({"alpha", "fraction of the activation range that moves to the weights"}, quantization.alpha, 0, 1);
        inner.text({"calibration", "file written by `kvc smooth`", kRequired}, quantization.smoothing_file);
      });
}

void prefill_keys(YamlKeys& keys, PrefillChoice& prefill) {
  keys.integer({"chunk", "tokens of the prompt that the model processes at a time", kRequired}, prefill.chunk, 1,
               1 << 24);
  std::string through = "earlier";
  keys.choice(
      {"through",
       "earlier: a chunk attends to earlier chunks as the cache stores them, and exactly to itself; all: to itself "
       "through the cache, too"},
      through, {"earlier", "all"});
  prefill.through_all = through == "all";
}

void machine_keys(YamlKeys& keys, Experiment& experiment) {
  keys.other({"device", "where the model runs; several devices each take an equal range of layers", false, "cpu"},
             concat(kDevices, ", or a list"),
             [&](const YamlValue& value) { experiment.devices = read_devices(value); });
  keys.other(
      {"batch_size", "sequences that a worker decodes together; auto: as many as fit into memory", false, "auto"},
      "auto, or integer, 1 to 4096", [&](const YamlValue& value) {
        const bool is_auto = value.is_scalar() && value.string() == "auto";
        experiment.batch_size = is_auto ? 0 : value.integer(1, 4096);
      });
  keys.boolean({"share_prefix", "prefill the common prefix of a task's prompts only once"}, experiment.share_prefix);
  keys.boolean({"fan_out", "one prefill serves all compressors; results do not depend on it"}, experiment.fan_out);
  keys.map({"sampling", "sample tokens (default: greedy decoding)"},
           [&](YamlKeys& inner) { sampling_keys(inner, experiment.sampling); });
  keys.integer({"workers", "worker processes, each with its own copy of the model"}, experiment.workers, 1, 256);
  patience_key(keys, experiment.patience);
  keys.integer({"threads", "CPU threads per worker"}, experiment.threads, 1, 1024);
  keys.integer({"seed", "seed of everything random in the run"}, experiment.seed, 0);
}

void probe_keys(YamlKeys& keys, Experiment& experiment) {
  auto& measures = experiment.probe.measures;
  keys.other({"measures", "what to measure", false, "all"}, concat("list of: ", join(probe_measures())),
             [&](const YamlValue& value) {
               measures.clear();
               for (const auto& measure : value.sequence()) measures.push_back(measure.choice(probe_measures()));
               if (measures.empty()) value.fail("probe.measures is empty, expected at least one");
             });
  keys.integer({"queries", "number of last prompt tokens whose queries the attention measures use"},
               experiment.probe.n_queries, 1, 4096);
  keys.text({"dump", "folder for every tensor that the measures are computed from"}, experiment.dump);
}

void search_keys(YamlKeys& keys, SearchSettings& search) {
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  keys.real({"budget", "largest cache size of a candidate, as a fraction of 16-bit storage", kRequired}, search.budget,
            0, 1);
  keys.text({"option", "the compressor's option to search; it takes one integer per layer", false, "its only one"},
            search.option);
  keys.other({"levels", "values to try in a layer", false, "all that the option allows"}, "list of integers",
             [&](const YamlValue& value) {
               for (const auto& level : value.sequence()) search.levels.push_back(level.integer());
             });
  keys.integer({"candidates", "number of candidates to try"}, search.n_candidates, 1, kMany);
  keys.integer({"rescore", "how many of the best candidates by likelihood are ranked by accuracy"}, search.n_rescored,
               1, kMany);
  keys.integer({"samples", "calibration samples per task"}, search.n_samples, 1, kMany);
  keys.integer({"seed", "seed of the random candidates"}, search.seed, 0, kMany);
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
  keys.text({"name", "the experiment's name; tables can select its cells by it", false, "the file's name"}, name);
  keys.then([&name](YamlMap& map) {  // results/NAME.sqlite; @: what the store appends to it (put_aside)
    const bool is_name = !name.empty() && name.size() <= kLongestName && !has_control(name) &&
                         name.find_first_of("/@") == std::string::npos;
    if (is_name) return;
    const auto given = map.optional("name");
    (given ? *given : map.value())
        .fail("name is ", in_quotes(name), ", expected 1 to ", kLongestName,
              " bytes without '/', '@' and control characters");
  });
  keys.other(
      {"like", "experiment file to inherit keys from; this file then needs a `name`, and its own keys take precedence"},
      "file", [](const YamlValue&) {});
}

void patience_key(YamlKeys& keys, double& patience) {
  keys.real({"patience",
             "seconds that one step of a worker may take, such as a plugin call, before the worker is stopped; or ten "
             "times the longest step so far, if that is more"},
            patience, 0.1);
}

void declare_keys(YamlKeys& keys, Experiment& experiment) {
  name_keys(keys, experiment.name);
  auto kind = to_string(experiment.kind);
  keys.choice({"kind",
               "eval: answer tasks; probe: measure cache contents; bench: time and memory; capacity: what fits into "
               "memory; search: one integer per layer"},
              kind, run_kinds());
  experiment.kind = run_kind(kind);
  experiment.probe.measures = probe_measures();
  keys.map(
      {"probe", "settings of kind probe"}, [&](YamlKeys& inner) { probe_keys(inner, experiment); },
      only_of(RunKind::probe, experiment));
  keys.map(
      {"search", "settings of kind search, where it is required", experiment.kind == RunKind::search},
      [&](YamlKeys& inner) { search_keys(inner, experiment.search); }, only_of(RunKind::search, experiment));
  keys.text({"database", "results database", false, "results/NAME.sqlite"}, experiment.database);
  keys.text({"model", "a folder, a .gguf file, or a name in models/catalog.yaml", kRequired}, experiment.model_name);
  keys.other(
      {"tasks",
       "suite/name, a whole suite, a pattern such as demo/*, a task file, or a .txt file that lists any of these",
       kRequired},
      "list of texts", [&](const YamlValue& value) {
        for (const auto& item : value.sequence()) experiment.tasks.push_back(beside_file(item));
      });
  compressors_key(keys, experiment.compressors, experiment.folder);
  keys.integer(
      {"limit", "samples per task: spread evenly over lengths and depths if the task has them, else the first ones",
       false, "all"},
      experiment.limit, 1);
  keys.integer(
      {"max_prompt_tokens", "longer prompts are truncated or refused, depending on the task", false, "the context"},
      experiment.max_prompt_tokens, 2);
  keys.real({"min_baseline",
             "tables, figures and the leaderboard leave out tasks on which full precision scores less than this, in %"},
            experiment.min_baseline, 0, 100);
  std::string question = "in_prompt";
  keys.choice(
      {"question", "in_prompt: compressed with the prompt; after_compression: read after the prompt was compressed"},
      question, {"in_prompt", kAfterCompression});
  experiment.question_after = question == kAfterCompression;
  keys.map({"prefill",
            "process prompts in chunks that attend to the compressed cache, as inference engines do (default: "
            "the whole prompt at once, with exact attention)"},
           [&](YamlKeys& inner) { prefill_keys(inner, experiment.prefill); });
  experiment.sizes = {4096, 32768};
  keys.other(
      {"sizes", "lengths, in tokens, of synthetic prompts whose cache size is measured once per compressor; []: none",
       false, "[4096, 32768]"},
      "list of integers, 1 to 1048576", [&](const YamlValue& value) {
        experiment.sizes.clear();
        for (const auto& size : value.sequence()) experiment.sizes.push_back(size.integer(1, 1048576));
      });
  model_keys(keys, experiment);
  machine_keys(keys, experiment);
  keys.text({"chat_template",
             "for tasks whose prompt is a user's turn: auto (the model's own, if it has one), own, none, or a name in "
             "prompts/chat"},
            experiment.chat.form);
  keys.other({"chat_options", "variables of the chat template, e.g. enable_thinking: false", false, "none"}, "map",
             [&](const YamlValue& value) { experiment.chat.options = read_chat_options(value); });
  keys.other({"chat_date", "date given to a chat template that asks for it", false, kChatDate}, "day, as 2024-07-26",
             [&](const YamlValue& value) { experiment.chat.date = read_chat_date(value); });
  keys.text({"system_message", "system message of these prompts", false, "the chat template's own"},
            experiment.system_message);
  keys.text({"data_dir", "folder of external datasets", false, "KVC_DATA"}, experiment.data_dir);
  keys.other({"text", "text file, or list of them, that replaces the texts of tasks that score running text"},
             "file or list", [&](const YamlValue& value) {
               for (const auto& file : value.is_scalar() ? std::vector{value.string()} : value.strings())
                 experiment.texts.push_back(value.folder() / file);
             });
  keys.other({"check", "settings of `kvc check`; `kvc run` ignores them"}, "map",
             [&](const YamlValue&) { experiment.has_check_settings = true; });
  isolation_keys(keys, experiment.isolation);
  plugin_path_key(keys, experiment.plugin_path);
}

std::filesystem::path dump_prefix(const Experiment& experiment, const std::string& task, int64_t sample) {
  auto name = concat(task, "-", sample);
  std::replace(name.begin(), name.end(), '/', '_');
  return std::filesystem::absolute(experiment.dump) / name;
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
  if (like && !map.has("name")) like->fail("the file has no `name`: experiments with the same name would mix");
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
