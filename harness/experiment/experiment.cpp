#include "experiment/experiment.h"

#include <algorithm>

#include "experiment/read_compressors.h"
#include "text/files.h"
#include "text/nearest.h"
#include "text/yaml_read.h"
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

void put_over(const YAML::Node& root, const std::string& override) {
  const auto equals = override.find('=');
  KVC_CHECK(equals != std::string::npos && equals > 0, "--set '", override, "': expected path=value");
  const auto steps = split_path(override.substr(0, equals));
  YAML::Node value;
  try {
    value.reset(without_marks(YAML::Load(override.substr(equals + 1))));
  } catch (const YAML::Exception& e) {
    throw Error(concat("--set '", override, "': the value is no YAML: ", e.msg));
  }
  YAML::Node node;
  node.reset(root);
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
  auto devices = value.is_scalar() ? std::vector{value.string()} : value.strings();
  if (devices.empty()) value.fail("device is an empty list, expected cpu or cuda:N");
  return devices;
}

// "auto" -> 0
int64_t read_batch_size(YamlMap& map) {
  const auto value = map.optional("batch_size");
  if (!value || (value->is_scalar() && value->string() == "auto")) return 0;
  return value->integer(1, 4096);
}

Sampling read_sampling(YamlMap map) {
  Sampling sampling;
  sampling.temperature = map.optional_real("temperature", 0, 100, 1);
  sampling.top_k = map.optional_integer("top_k", 0, std::numeric_limits<int32_t>::max(), sampling.top_k);
  sampling.top_p = map.optional_real("top_p", 0, 1, sampling.top_p);
  sampling.seed = map.optional_integer("seed", 0, std::numeric_limits<int64_t>::max(), sampling.seed);
  map.reject_unknown();
  return sampling;
}

// 16 is a word for none.
int64_t read_bits(YamlMap& map, const std::vector<int64_t>& allowed) {
  const auto value = map.required("bits");
  const int64_t bits = value.integer();
  if (std::find(allowed.begin(), allowed.end(), bits) == allowed.end() && bits != 16) {
    std::vector<std::string> words{"16"};
    for (const int64_t n : allowed) words.push_back(concat(n));
    value.fail(value.name(), " is ", bits, ", expected ", join(words));
  }
  return bits == 16 ? 0 : bits;
}

void read_weights(const YamlValue& value, Experiment& experiment) {
  if (value.is_scalar()) {
    experiment.weights = value.choice({"dtype", "int8"});
    return;
  }
  auto map = value.map();
  experiment.quantization.weight_bits = read_bits(map, {8, 4, 3, 2});
  if (const auto group = map.optional("group_size")) {
    const bool is_row = group->is_scalar() && group->string() == "row";
    experiment.quantization.group_size = is_row ? 0 : group->integer(1);
  }
  map.reject_unknown();
}

void read_activations(YamlMap map, QuantizationChoice& quantization) {
  quantization.activation_bits = read_bits(map, {8, 7, 6, 5, 4, 3, 2});
  map.reject_unknown();
}

void read_smooth_quant(YamlMap map, QuantizationChoice& quantization) {
  quantization.alpha = map.optional_real("alpha", 0, 1, quantization.alpha);
  quantization.smoothing_file = map.required_string("calibration");
  map.reject_unknown();
}

const std::vector<std::string> kKinds{"eval", "probe", "bench", "capacity", "search"};

void read_probe(const YamlValue& value, Experiment& experiment) {
  if (experiment.kind != "probe") value.fail("probe is of kind probe, and kind is ", experiment.kind);
  auto map = value.map();
  if (const auto measures = map.optional("measures")) {
    experiment.probe.measures.clear();
    for (const auto& measure : measures->sequence()) {
      experiment.probe.measures.push_back(measure.choice(probe_measures()));
    }
    if (experiment.probe.measures.empty()) measures->fail("probe.measures is empty, expected at least one");
  }
  experiment.probe.n_queries = map.optional_integer("queries", 1, 4096, experiment.probe.n_queries);
  experiment.dump = map.optional_string("dump", "");
  map.reject_unknown();
}

void read_search(const YamlValue& value, Experiment& experiment) {
  if (experiment.kind != "search") value.fail("search is of kind search, and kind is ", experiment.kind);
  constexpr int64_t kMany = std::numeric_limits<int32_t>::max();
  auto map = value.map();
  auto& search = experiment.search;
  search.budget = map.required("budget").real(0, 1);
  search.option = map.optional_string("option", "");
  if (const auto levels = map.optional("levels")) {
    for (const auto& level : levels->sequence()) search.levels.push_back(level.integer());
  }
  search.n_candidates = map.optional_integer("candidates", 1, kMany, search.n_candidates);
  search.n_rescored = map.optional_integer("rescore", 1, kMany, search.n_rescored);
  search.n_samples = map.optional_integer("samples", 1, kMany, search.n_samples);
  search.seed = map.optional_integer("seed", 0, kMany, search.seed);
  map.reject_unknown();
}

Experiment read_experiment(const std::filesystem::path& path, YamlMap map) {
  Experiment experiment;
  experiment.name = map.optional_string("name", path.stem().string());
  experiment.kind = map.optional_choice("kind", kKinds, experiment.kind);
  experiment.probe.measures = probe_measures();
  if (const auto probe = map.optional("probe")) read_probe(*probe, experiment);
  const auto search = experiment.kind == "search" ? std::optional(map.required("search")) : map.optional("search");
  if (search) read_search(*search, experiment);
  experiment.database = map.optional_string("database", "");
  experiment.folder = path.parent_path();
  experiment.model = map.required_string("model");
  experiment.tasks = map.required("tasks").strings();
  for (const auto& entry : map.required("compressors").sequence()) {
    for (auto& choice : read_compressor(entry)) experiment.compressors.push_back(std::move(choice));
  }
  if (const auto limit = map.optional("limit")) experiment.limit = limit->integer(1);
  if (const auto most = map.optional("max_prompt_tokens")) experiment.max_prompt_tokens = most->integer(2);
  experiment.dtype = map.optional_choice("dtype", {"fp32", "fp16", "bf16"}, experiment.dtype);
  if (const auto weights = map.optional("weights")) read_weights(*weights, experiment);
  if (const auto activations = map.optional("activations")) {
    read_activations(activations->map(), experiment.quantization);
  }
  if (const auto smooth = map.optional("smooth_quant")) read_smooth_quant(smooth->map(), experiment.quantization);
  if (const auto device = map.optional("device")) experiment.devices = read_devices(*device);
  experiment.batch_size = read_batch_size(map);
  experiment.share_prefix = map.optional_boolean("share_prefix", true);
  experiment.fan_out = map.optional_boolean("fan_out", true);
  if (const auto sampling = map.optional("sampling")) experiment.sampling = read_sampling(sampling->map());
  experiment.workers = map.optional_integer("workers", 1, 256, experiment.workers);
  experiment.threads = map.optional_integer("threads", 1, 1024, experiment.threads);
  experiment.seed = map.optional_integer("seed", 0, std::numeric_limits<int64_t>::max(), experiment.seed);
  experiment.chat_template = map.optional_string("chat_template", experiment.chat_template);
  experiment.system_message = map.optional_string("system_message", "");
  experiment.data_dir = map.optional_string("data_dir", "");
  if (const auto text = map.optional("text")) experiment.text = path.parent_path() / text->string();
  map.optional("check");  // is `kvc check`'s
  experiment.plugin_path = map.optional_strings("plugin_path");
  map.reject_unknown();
  if (experiment.tasks.empty()) map.required("tasks").fail("tasks is empty, expected at least one task");
  if (experiment.compressors.empty()) map.required("compressors").fail("compressors is empty, expected at least one");
  check_labels(experiment.compressors);
  return experiment;
}

}  // namespace

Experiment load_experiment(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const auto value = load_experiment_yaml(path, overrides);
  try {
    auto experiment = read_experiment(path, value.map());
    experiment.config = config_file(path, overrides);
    return experiment;
  } catch (const Error& e) {
    if (overrides.empty()) throw;
    throw Error(concat(e.what(), " (with --set ", join(overrides, ", "), ")"));
  }
}

ConfigFile config_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return {path.filename().string(), sha256_file(path), overrides};
}

YamlValue load_experiment_yaml(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto value = load_yaml(path);
  for (const auto& override : overrides) put_over(value.node(), override);
  return value;
}

std::string experiment_kind(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return load_experiment_yaml(path, overrides).map().optional_choice("kind", kKinds, "eval");
}

}  // namespace kvc
