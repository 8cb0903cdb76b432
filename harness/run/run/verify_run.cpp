#include "run/verify_run.h"

#include <algorithm>
#include <map>

#include "experiment/grid.h"
#include "experiment/named_files.h"
#include "experiment/read_compressors.h"
#include "run/run_experiment.h"
#include "stats/random.h"
#include "text/json.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

using nlohmann::json;

struct StoredCell {
  std::string key, model_label, task, model_json, task_json, plugin, plugin_sha256, options_json, options_label,
      settings, scoring_json, kind;
  bool is_probe() const { return kind == to_string(RunKind::probe); }
};

StoredCell find_cell(Database& db, const std::string& key) {
  auto select = db.prepare(
      "SELECT key, model, task, model_json, task_json, plugin, plugin_sha256, options_json, options_label,"
      " generation_json, scoring_json, kind FROM cell WHERE substr(key, 1, length(?1)) = ?1 LIMIT 2");
  KVC_CHECK(!key.empty() && select.bind(1, key).step(), "results database '", db.path(), "': no cell '", key,
            "'; `kvc query` with SELECT key, task, plugin, options_label FROM cell lists them");
  const StoredCell cell{select.text(0), select.text(1), select.text(2),  select.text(3),
                        select.text(4), select.text(5), select.text(6),  select.text(7),
                        select.text(8), select.text(9), select.text(10), select.text(11)};
  KVC_CHECK(!select.step(), "results database '", db.path(), "': several cells begin with '", key, "'");
  KVC_CHECK(cell.kind == to_string(RunKind::eval) || cell.is_probe(), "cell ", cell.key, " is of kind ", cell.kind,
            ": its results are not reproducible; expected eval or probe");
  return cell;
}

// Of a database, whose texts anyone may have written.
json parsed(const std::string& text) {
  check_json_depth(text, "the cell's texts");
  return json::parse(text);
}

// What the model was fetched from, or null.
json model_origin(Database& db, const std::string& key) {
  auto select = db.prepare(
      "SELECT json_extract(provenance_json, '$.model') AS origin FROM cell_provenance"
      " WHERE cell_key = ? AND origin IS NOT NULL ORDER BY sha256 LIMIT 1");
  return select.bind(1, key).step() ? parsed(select.text(0)) : json();
}

// Puts the paths of files for what is recorded of them, however deep in a composition.
void place_files(const NamedFiles& files, json& options) {
  constexpr std::string_view kHash = "sha256:";
  if (options.is_structured()) {
    for (auto& value : options) place_files(files, value);
  } else if (options.is_string() && options.get_ref<const std::string&>().starts_with(kHash)) {
    options = files.find("calibration", options.get<std::string>().substr(kHash.size()));
  }
}

// What is recorded of quantized weights and activations, as an experiment asks for it.
void read_quantization(const json& model, const NamedFiles& files, Experiment& experiment) {
  const auto found = model.find("quantization");
  if (found == model.end()) return;
  auto& quantization = experiment.quantization;
  if (found->contains("weights")) {
    const auto& weights = found->at("weights");
    quantization.weight_bits = weights.at("bits");
    if (weights.at("group_size").is_number()) quantization.group_size = weights.at("group_size");
  }
  if (found->contains("activations")) quantization.activation_bits = found->at("activations").at("bits");
  if (!found->contains("smooth_quant")) return;
  const auto& smooth = found->at("smooth_quant");
  quantization.alpha = smooth.at("alpha");
  quantization.smoothing_file = files.find("smooth_quant: calibration", smooth.at("calibration_sha256"));
}

// The texts that the cell read, and where its windows lay in them.
void read_windows(const std::string& name, const json& task, const NamedFiles& files, Experiment& experiment) {
  const auto& likelihood = task.at("likelihood");
  const auto& whole = task.at("dataset_sha256");
  if (const auto several = likelihood.find("texts_sha256"); several != likelihood.end()) {
    for (const auto& sha256 : *several) experiment.texts.emplace_back(files.find("text", sha256));
  } else if (files.has(whole)) {
    experiment.texts = {files.find("text", whole)};
  }
  if (!likelihood.contains("stride")) return;
  experiment.windows[name] = {likelihood.at("offset").get<int64_t>(), likelihood.at("stride").get<int64_t>()};
}

// The experiment that makes this cell alone.
Experiment experiment_of(const StoredCell& cell, const NamedFiles& files, const VerifyOptions& options) {
  Experiment experiment;
  experiment.name = "verify";
  experiment.model_name = cell.model_label;
  const auto task_file = files.find_task(cell.task);
  experiment.tasks = {task_file.empty() ? cell.task : task_file};
  const auto task = parsed(cell.task_json);
  if (task.contains("likelihood")) read_windows(cell.task, task, files, experiment);
  const auto settings = parsed(cell.settings);
  if (cell.is_probe()) {
    experiment.kind = RunKind::probe;
    experiment.probe = {settings.at("probe").at("measures"), settings.at("probe").at("queries")};
  }
  auto resolved = parsed(cell.options_json);
  place_files(files, resolved);
  const bool is_composed = cell.plugin.find_first_of("+/(") != std::string::npos;  // no plugin's name has these
  const json entry = is_composed ? resolved : json{{cell.plugin, resolved}};
  experiment.compressors = read_compressor(parse_yaml("cell " + cell.key.substr(0, 12), entry.dump()));
  experiment.dtype = settings.at("dtype");
  if (settings.at("weights").is_string()) experiment.weights = settings.at("weights");
  read_quantization(parsed(cell.model_json), files, experiment);
  experiment.devices = settings.at("device").get<std::vector<std::string>>();
  if (settings.at("decoding").is_object()) experiment.sampling = settings.at("decoding").get<Sampling>();
  experiment.seed = settings.at("seed");
  if (settings.contains("max_prompt_tokens")) experiment.max_prompt_tokens = settings.at("max_prompt_tokens");
  experiment.question_after = settings.contains("question");
  experiment.chat.form = settings.at("chat_template");
  if (settings.contains("chat_options")) experiment.chat.options = settings.at("chat_options");
  experiment.chat.date = settings.value("chat_date", kChatDate);
  experiment.system_message = settings.value("system_message", "");
  experiment.data_dir = options.data_dir;
  experiment.plugin_path = options.plugin_path;
  return experiment;
}

std::vector<int64_t> draw(const std::set<int64_t>& finished, const VerifyOptions& options) {
  std::vector<int64_t> samples(finished.begin(), finished.end());
  SplitMix64 random(static_cast<uint64_t>(options.seed));
  for (size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[random.next() % i]);
  if (samples.size() > static_cast<size_t>(options.n_samples)) samples.resize(static_cast<size_t>(options.n_samples));
  std::sort(samples.begin(), samples.end());
  return samples;
}

// The value that a line shows: not all of a long text.
std::string shown(const std::string& text) { return text.size() <= 100 ? text : text.substr(0, 100) + "..."; }

using Facts = std::map<std::string, std::string>;

// All that a sample's result is, by name.
Facts facts_of(Database& db, const std::string& key, int64_t sample) {
  Facts facts;
  auto row = db.prepare(
      "SELECT status, error, prompt_sha256, gold, token_ids_json, generation, stop_reason, n_prompt_tokens, kv_bytes,"
      " kv_bytes_fp16, n_encoded_tokens, k_error, v_error FROM sample WHERE cell_key = ? AND sample = ?");
  KVC_CHECK(row.bind(1, key).bind(2, sample).step(), "sample ", sample, " of cell ", key, " was not stored");
  for (int i = 0; i < row.n_columns(); ++i) facts[row.column_name(i)] = row.text(i);
  auto scores = db.prepare("SELECT extractor, answer, value FROM score WHERE cell_key = ? AND sample = ?");
  scores.bind(1, key).bind(2, sample);
  while (scores.step()) {
    facts["score " + scores.text(0)] = scores.text(2);
    facts["answer " + scores.text(0)] = scores.text(1);
  }
  auto bytes = db.prepare("SELECT layer, stage, tensor, kind, bytes FROM kv_bytes WHERE cell_key = ? AND sample = ?");
  bytes.bind(1, key).bind(2, sample);
  while (bytes.step()) {
    facts[concat("bytes of layer ", bytes.text(0), ", stage ", bytes.text(1), ", ", bytes.text(2), " ",
                 bytes.text(3))] = bytes.text(4);
  }
  return facts;
}

void compare(const Facts& stored, const Facts& now, const std::string& where, std::vector<std::string>& differences) {
  Facts all = stored;
  all.insert(now.begin(), now.end());
  for (const auto& [name, value] : all) {
    const auto was = stored.find(name), is = now.find(name);
    if (was != stored.end() && is != now.end() && was->second == is->second) continue;
    differences.push_back(concat(where, ": ", name, ": stored ", was == stored.end() ? "nothing" : shown(was->second),
                                 ", now ", is == now.end() ? "nothing" : shown(is->second)));
  }
}

// A probe's values by measure, and there by their place.
std::map<std::string, Facts> values_of(Database& db, const std::string& key, int64_t sample) {
  std::map<std::string, Facts> values;
  auto select = db.prepare(
      "SELECT measure, printf('layer %d', layer) || iif(head < 0, '', printf(', head %d', head)) ||"
      " iif(tensor = '', '', ', ' || tensor) || iif(step < 0, '', printf(', step %d', step)), value"
      " FROM probe WHERE cell_key = ? AND sample = ?");
  for (select.bind(1, key).bind(2, sample); select.step();) values[select.text(0)][select.text(1)] = select.text(2);
  return values;
}

// These are thousands: a line for each measure, with the first that differs.
void compare_values(std::map<std::string, Facts> stored, std::map<std::string, Facts> now, const std::string& where,
                    std::vector<std::string>& differences) {
  for (const auto& [measure, values] : now) stored.try_emplace(measure);
  for (const auto& [measure, values] : stored) {
    std::vector<std::string> lines;
    compare(values, now[measure], concat(where, ": ", measure), lines);
    if (lines.empty()) continue;
    const auto others =
        lines.size() == 1 ? "" : concat(", and ", lines.size() - 1, " more of ", values.size(), " values");
    differences.push_back(lines.front() + others);
  }
}

void compare_sample(const StoredCell& stored, Database& db, const std::string& key_now, Database& now, int64_t sample,
                    std::vector<std::string>& differences) {
  const auto where = concat("sample ", sample);
  if (stored.is_probe()) {
    compare_values(values_of(db, stored.key, sample), values_of(now, key_now, sample), where, differences);
  } else {
    compare(facts_of(db, stored.key, sample), facts_of(now, key_now, sample), where, differences);
  }
}

// The binary of the plugin that KL is measured against, taken out of a task: another one is a note, like the cell's own.
std::string take_reference_binary(std::string& task_json) {
  auto task = try_json(task_json);
  const nlohmann::json::json_pointer place("/likelihood/reference/plugin_sha256");
  if (!task.is_object() || !task.contains(place) || !task.at(place).is_string()) return "";
  const std::string binary = task.at(place);
  task.at(place) = "";
  task_json = task.dump();
  return binary;
}

// What the cell was made from, against what is there now.
void compare_inputs(const StoredCell& stored, const CellRecord& now, Verification& result) {
  auto task_then = stored.task_json, task_now = now.task_json;
  const auto reference_then = take_reference_binary(task_then), reference_now = take_reference_binary(task_now);
  const Facts was{{"model", stored.model_json},
                  {"task", task_then},
                  {"options", stored.options_json},
                  {"settings", stored.settings},
                  {"scoring", stored.scoring_json}};
  const Facts is{{"model", now.model_json},
                 {"task", task_now},
                 {"options", now.options_json},
                 {"settings", now.generation_json},
                 {"scoring", now.scoring_json}};
  compare(was, is, "cell", result.differences);
  if (stored.plugin_sha256 != now.plugin_sha256) {
    result.notes.push_back(concat("plugin binary: stored ", stored.plugin_sha256, ", now ", now.plugin_sha256));
  }
  if (reference_then != reference_now) {
    result.notes.push_back(concat("reference's binary: stored ", reference_then, ", now ", reference_now));
  }
}

std::string makers_of(Database& db, const std::string& key, const std::string& field) {
  std::vector<std::string> makers;
  auto select = db.prepare(
      "SELECT DISTINCT json_extract(provenance_json, '$.' || ?2) AS maker FROM cell_provenance"
      " WHERE cell_key = ?1 AND maker IS NOT NULL ORDER BY maker");
  for (select.bind(1, key).bind(2, field); select.step();) makers.push_back(select.text(0));
  return join(makers, " and ");
}

// By which processors and programs the cell was computed, where these are others.
void compare_makers(const StoredCell& stored, Database& db, const std::string& key_now, Database& now,
                    std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::string>> makers{{"cpu", "processor"},
                                                          {"cpu_capability", "processor's instructions in LibTorch"},
                                                          {"torch", "LibTorch"},
                                                          {"git", "commit of kvc"}};
  if (stored.settings.find("cuda") != std::string::npos) makers.emplace_back("gpus", "GPUs");
  for (const auto& [field, what] : makers) {
    const auto then = makers_of(db, stored.key, field), here = makers_of(now, key_now, field);
    if (!then.empty() && then != here) notes.push_back(concat(what, ": stored ", then, ", now ", here));
  }
}

// A task file, or a name, may stand for several.
void keep_task(Grid& grid, const std::string& task) {
  std::erase_if(grid.cells, [&](const auto& cell) { return cell.record.task != task; });
  KVC_CHECK(grid.cells.size() == 1, "task ", task, ": there are ", grid.cells.size(), " of that name, expected one");
  auto kept = std::move(grid.tasks.at(grid.cells.front().task));
  grid.tasks.clear();
  grid.tasks.push_back(std::move(kept));
  grid.cells.front().task = 0;
}

void keep_samples(Grid& grid, const std::vector<int64_t>& wanted) {
  auto& samples = grid.tasks.front().data.samples;
  std::erase_if(samples, [&](const Sample& s) { return !std::binary_search(wanted.begin(), wanted.end(), s.id); });
  KVC_CHECK(samples.size() == wanted.size(), "task ", grid.tasks.front().spec.name, ": its data has ", samples.size(),
            " of the ", wanted.size(), " sampled questions");
}

}  // namespace

Verification verify_run(ResultStore& store, const std::string& key, const VerifyOptions& options, const Paths& paths) {
  auto& db = store.database();
  const auto stored = find_cell(db, key);
  Verification result;
  result.cell_key = stored.key;
  result.what = concat(stored.task, ", ", stored.plugin, " (", stored.options_label, ")");
  result.samples =
      draw(stored.is_probe() ? store.probed_samples(stored.key) : store.finished_samples(stored.key), options);
  KVC_CHECK(!result.samples.empty(), "cell ", stored.key, " (", result.what, ") has no finished sample");
  auto experiment = experiment_of(stored, NamedFiles::read(db, stored.key), options);
  if (options.find_model) experiment.model_path = options.find_model(stored.model_label, model_origin(db, stored.key));
  auto grid = expand_grid(experiment, paths);
  keep_task(grid, stored.task);
  compare_inputs(stored, grid.cells.front().record, result);
  keep_samples(grid, result.samples);
  auto again = ResultStore::open(":memory:");
  run_grid(grid, experiment, again);
  const auto& key_now = grid.cells.front().record.key;
  compare_makers(stored, db, key_now, again.database(), result.notes);
  for (const int64_t sample : result.samples) {
    compare_sample(stored, db, key_now, again.database(), sample, result.differences);
  }
  return result;
}

}  // namespace kvc
