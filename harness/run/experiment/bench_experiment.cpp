#include "experiment/bench_experiment.h"

#include <cmath>

#include "experiment/read_compressors.h"
#include "experiment/read_device.h"
#include "text/yaml_keys.h"

namespace kvc {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24, kMostBatch = 4096, kMostSize = 65536;

// One integer, or a list of them.
std::vector<int64_t> read_integers(const YamlValue& value, int64_t min, int64_t max) {
  if (value.is_scalar()) return {value.integer(min, max)};
  std::vector<int64_t> numbers;
  for (const auto& item : value.sequence()) numbers.push_back(item.integer(min, max));
  if (numbers.empty()) value.fail(value.name(), " is an empty list, expected at least one");
  return numbers;
}

void layer_keys(YamlKeys& keys, BenchSubject& subject) {
  const auto outliers = concat(subject.outlier_channels);
  keys.integer({"n_heads", "query heads", kRequired}, subject.n_heads, 1, kMostSize);
  subject.n_kv_heads = subject.n_heads;
  keys.integer({"n_kv_heads", "KV heads; must divide n_heads", false, "n_heads"}, subject.n_kv_heads, 1, kMostSize);
  keys.integer({"head_dim", "channels per head", kRequired}, subject.head_dim, 1, kMostSize);
  keys.other({"outlier_channels", "outlier channels per KV head of K", false, outliers.c_str()},
             "integer, 0 to head_dim",
             [&](const YamlValue& value) { subject.outlier_channels = value.integer(0, subject.head_dim); });
  keys.real({"outlier_factor", "how much larger outlier channels are"}, subject.outlier_factor, 0, 1e4);
}

void read_layer(const YamlValue& value, BenchSubject& subject) {
  read_keys(value.map(), [&](YamlKeys& keys) { layer_keys(keys, subject); });
  if (subject.n_heads % subject.n_kv_heads != 0) {
    value.fail(value.name(), " has ", subject.n_heads, " heads over ", subject.n_kv_heads,
               " KV heads, expected a multiple");
  }
}

// The layer, the model or the config that both kinds name.
void subject_keys(YamlKeys& keys, BenchSubject& subject) {
  std::optional<YamlValue> layer;
  keys.other(
      {"layer", "one attention layer with random inputs; or give `model` or `config`"}, "map",
      [&](const YamlValue& value) { layer = value; }, [&](YamlKeys& inner) { layer_keys(inner, subject); });
  keys.text({"model", "a folder, a .gguf file, or a name in models/catalog.yaml"}, subject.model);
  keys.text({"config", "a config.json, for a model of that shape with random weights"}, subject.config);
  keys.then([&](YamlMap& map) {
    if (int{layer.has_value()} + !subject.model.empty() + !subject.config.empty() != 1) {
      map.value().fail(map.value().name(), " names ", layer ? "layer " : "", subject.model.empty() ? "" : "model ",
                       subject.config.empty() ? "" : "config ", "of layer, model, config, expected exactly one");
    }
    if (layer) read_layer(*layer, subject);
  });
  keys.boolean({"prefill", "include exact attention over the prompt; false is allowed with `layer` only"},
               subject.prefill);
  keys.then([&](YamlMap& map) {
    if (!subject.prefill && !layer) map.required("prefill").fail("prefill is false, expected true for a whole model");
  });
  keys.integer({"seed", "seed of random inputs and weights"}, subject.seed, 0);
  keys.other({"device", "device to run on", false, "cpu"}, kDevices,
             [&](const YamlValue& value) { subject.device = read_device(value, value.string()); });
}

void bench_keys(YamlKeys& keys, BenchExperiment& experiment) {
  std::vector<int64_t> lengths, batches{1};
  int64_t n_new = 0;
  subject_keys(keys, experiment.subject);
  keys.other(
      {"prompt_tokens", "prompt length of each sequence; every combination of length and batch is measured", kRequired},
      concat("integer, 1 to ", kMostTokens, ", or a list"),
      [&](const YamlValue& value) { lengths = read_integers(value, 1, kMostTokens); });
  keys.integer({"new_tokens", "tokens that each sequence decodes", kRequired}, n_new, 1, kMostTokens);
  keys.other({"batch", "sequences decoded together", false, "1"}, concat("integer, 1 to ", kMostBatch, ", or a list"),
             [&](const YamlValue& value) { batches = read_integers(value, 1, kMostBatch); });
  for (const int64_t length : lengths) {
    for (const int64_t batch : batches) experiment.points.push_back({length, n_new, batch});
  }
  keys.integer({"repeats", "timed runs of each combination"}, experiment.n_repeats, 1, 10'000);
  keys.integer({"warmups", "untimed runs of each combination, before the timed ones"}, experiment.n_warmups, 0, 10'000);
}

int64_t read_bytes(const YamlValue& value) {
  const int64_t bytes = parse_bytes(value.string());
  if (bytes <= 0) value.fail(value.name(), " is '", value.string(), "', expected bytes as 2GB, 500MB, 1.5GiB, 64MiB");
  return bytes;
}

void capacity_keys(YamlKeys& keys, BenchExperiment& experiment) {
  CapacitySearch search{0, 1024, 16, 256, int64_t{1} << 20};
  subject_keys(keys, experiment.subject);
  keys.integer({"prompt_tokens", "prompt length of each sequence of a batch"}, search.n_prompt_tokens, 1, kMostTokens);
  keys.integer({"new_tokens", "tokens that each sequence decodes"}, search.n_new_tokens, 1, kMostTokens);
  keys.integer({"max_batch", "largest batch to try; 0: do not search for a batch"}, search.max_batch, 0, kMostBatch);
  keys.integer({"max_context", "longest context to try; 0: do not search for a context"}, search.max_context, 0,
               kMostTokens);
  keys.other({"memory_limit", "limit on tensors: weights, KV and workspace together", kRequired},
             "bytes as 2GB, 500MB, 1.5GiB, 64MiB, or a list", [&](const YamlValue& limit) {
               for (const auto& value : limit.is_scalar() ? std::vector{limit} : limit.sequence()) {
                 search.limit_bytes = read_bytes(value);
                 experiment.searches.push_back(search);
               }
             });
}

void read_capacity(YamlMap map, BenchExperiment& experiment) {
  read_keys(map, [&](YamlKeys& keys) { capacity_keys(keys, experiment); });
  if (experiment.searches.empty()) {
    map.required("memory_limit").fail("memory_limit is an empty list, expected at least one");
  }
  const auto& search = experiment.searches.front();
  if (search.max_context > 0 && search.max_context <= search.n_new_tokens) {
    map.required("max_context").fail("max_context is ", search.max_context, ", expected 0, or more than new_tokens");
  }
}

}  // namespace

int64_t parse_bytes(const std::string& text) {
  size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::exception&) {
    return 0;
  }
  while (end < text.size() && text[end] == ' ') ++end;
  const auto unit = text.substr(end);
  const double factor = unit == "GB"    ? 1e9
                        : unit == "MB"  ? 1e6
                        : unit == "GiB" ? 1024.0 * 1024 * 1024
                        : unit == "MiB" ? 1024.0 * 1024
                                        : 0;
  const double bytes = number * factor;
  return bytes >= 1 && bytes < 1e15 ? static_cast<int64_t>(std::llround(bytes)) : 0;
}

void declare_keys(YamlKeys& keys, BenchExperiment& experiment) {
  name_keys(keys, experiment.name);
  auto kind = to_string(experiment.kind);
  keys.choice({"kind", "bench: time and memory; capacity: what fits into memory", kRequired}, kind,
              {"bench", "capacity"});
  experiment.kind = run_kind(kind);
  keys.text({"database", "results database", false, "results/NAME.sqlite"}, experiment.database);
  if (experiment.kind == RunKind::bench) {
    keys.map({"bench", "what to time", kRequired}, [&](YamlKeys& inner) { bench_keys(inner, experiment); });
  } else {
    keys.other(
        {"capacity", "what to search for", kRequired}, "map",
        [&](const YamlValue& value) { read_capacity(value.map(), experiment); },
        [&](YamlKeys& inner) { capacity_keys(inner, experiment); });
  }
  compressors_key(keys, experiment.compressors, experiment.folder);
  auto& subject = experiment.subject;
  keys.choice({"dtype", "compute type of the workload"}, subject.dtype, {"fp32", "fp16", "bf16"});
  keys.choice({"weights", "storage of the layers' weight matrices: as `dtype`, or 8-bit per row"}, subject.weights,
              {"dtype", "int8"});
  keys.integer({"threads", "CPU threads"}, subject.threads, 1, 1024);
  patience_key(keys, experiment.patience);
  isolation_keys(keys, experiment.isolation);
  plugin_path_key(keys, experiment.plugin_path);
}

BenchExperiment load_bench(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto map = load_experiment_yaml(path, overrides);
  BenchExperiment experiment;
  experiment.name = path.stem().string();
  experiment.config = config_file(map, overrides);
  read_keys(map, [&](YamlKeys& keys) { declare_keys(keys, experiment); });
  if (experiment.compressors.empty()) map.required("compressors").fail("compressors is empty, expected at least one");
  check_labels(experiment.compressors);
  return experiment;
}

KVC_DEFINE_JSON(CapacitySearch, limit_bytes, n_prompt_tokens, n_new_tokens, max_batch, max_context)

}  // namespace kvc
