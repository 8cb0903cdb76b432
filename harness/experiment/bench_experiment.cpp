#include "experiment/bench_experiment.h"

#include <cmath>

#include "experiment/read_compressors.h"
#include "text/yaml_read.h"

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

void read_layer(YamlMap map, BenchSubject& subject) {
  subject.n_heads = map.required_integer("n_heads", 1, kMostSize);
  subject.n_kv_heads = map.optional_integer("n_kv_heads", 1, kMostSize, subject.n_heads);
  subject.head_dim = map.required_integer("head_dim", 1, kMostSize);
  subject.outlier_channels = map.optional_integer("outlier_channels", 0, subject.head_dim, subject.outlier_channels);
  subject.outlier_factor = map.optional_real("outlier_factor", 0, 1e4, subject.outlier_factor);
  map.reject_unknown();
  if (subject.n_heads % subject.n_kv_heads != 0) {
    map.value().fail(map.value().name(), " has ", subject.n_heads, " heads over ", subject.n_kv_heads,
                     " KV heads, expected a multiple");
  }
}

// The layer, the model or the config that both kinds name.
void read_subject(YamlMap& map, BenchSubject& subject) {
  const auto layer = map.optional("layer");
  subject.model = map.optional_string("model", "");
  subject.config = map.optional_string("config", "");
  if (int{layer.has_value()} + !subject.model.empty() + !subject.config.empty() != 1) {
    map.value().fail(map.value().name(), " names ", layer ? "layer " : "", subject.model.empty() ? "" : "model ",
                     subject.config.empty() ? "" : "config ", "of layer, model, config, expected exactly one");
  }
  if (layer) read_layer(layer->map(), subject);
  subject.prefill = map.optional_boolean("prefill", true);
  if (!subject.prefill && !layer) map.required("prefill").fail("prefill is false, expected true for a whole model");
  subject.seed = map.optional_integer("seed", 0, std::numeric_limits<int64_t>::max(), subject.seed);
}

void read_bench(YamlMap map, BenchExperiment& experiment) {
  read_subject(map, experiment.subject);
  const auto lengths = read_integers(map.required("prompt_tokens"), 1, kMostTokens);
  const auto n_new = map.required_integer("new_tokens", 1, kMostTokens);
  const auto batch = map.optional("batch");
  for (const int64_t length : lengths) {
    for (const int64_t b : batch ? read_integers(*batch, 1, kMostBatch) : std::vector<int64_t>{1}) {
      experiment.points.push_back({length, n_new, b});
    }
  }
  experiment.n_repeats = map.optional_integer("repeats", 1, 10'000, experiment.n_repeats);
  experiment.n_warmups = map.optional_integer("warmups", 0, 10'000, experiment.n_warmups);
  map.reject_unknown();
}

int64_t read_bytes(const YamlValue& value) {
  const int64_t bytes = parse_bytes(value.string());
  if (bytes <= 0) value.fail(value.name(), " is '", value.string(), "', expected bytes as 2GB, 500MB, 1.5GiB, 64MiB");
  return bytes;
}

void read_capacity(YamlMap map, BenchExperiment& experiment) {
  read_subject(map, experiment.subject);
  CapacitySearch search;
  search.n_prompt_tokens = map.optional_integer("prompt_tokens", 1, kMostTokens, 1024);
  search.n_new_tokens = map.optional_integer("new_tokens", 1, kMostTokens, 16);
  search.max_batch = map.optional_integer("max_batch", 0, kMostBatch, 256);
  search.max_context = map.optional_integer("max_context", 0, kMostTokens, int64_t{1} << 20);
  const auto limit = map.required("memory_limit");
  for (const auto& value : limit.is_scalar() ? std::vector{limit} : limit.sequence()) {
    search.limit_bytes = read_bytes(value);
    experiment.searches.push_back(search);
  }
  map.reject_unknown();
  if (experiment.searches.empty()) limit.fail("memory_limit is an empty list, expected at least one");
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

BenchExperiment load_bench(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto map = load_experiment_yaml(path, overrides).map();
  BenchExperiment experiment;
  experiment.name = map.optional_string("name", path.stem().string());
  experiment.kind = map.required_choice("kind", {"bench", "capacity"});
  experiment.database = map.optional_string("database", "");
  experiment.folder = path.parent_path();
  experiment.config = config_file(path, overrides);
  auto& subject = experiment.subject;
  const auto what = map.required(experiment.kind);
  experiment.kind == "bench" ? read_bench(what.map(), experiment) : read_capacity(what.map(), experiment);
  for (const auto& entry : map.required("compressors").sequence()) {
    for (auto& choice : read_compressor(entry)) experiment.compressors.push_back(std::move(choice));
  }
  subject.dtype = map.optional_choice("dtype", {"fp32", "fp16", "bf16"}, subject.dtype);
  subject.weights = map.optional_choice("weights", {"dtype", "int8"}, subject.weights);
  subject.threads = map.optional_integer("threads", 1, 1024, subject.threads);
  experiment.plugin_path = map.optional_strings("plugin_path");
  map.reject_unknown();
  if (experiment.compressors.empty()) map.required("compressors").fail("compressors is empty, expected at least one");
  check_labels(experiment.compressors);
  return experiment;
}

}  // namespace kvc
