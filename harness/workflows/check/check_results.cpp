#include "check/check_results.h"

#include <algorithm>
#include <cmath>

#include "experiment/open_compressor.h"
#include "experiment/task_names.h"
#include "fetch/data_sources.h"
#include "fetch/make_data.h"
#include "kvc/check.h"
#include "plugin_loader/build_compressor.h"
#include "plugin_loader/plan_memory.h"
#include "stats/clustered.h"
#include "stats/paired.h"
#include "task/dataset.h"
#include "text/files.h"
#include "text/hash_cache.h"
#include "text/nearest.h"
#include "tokenizer/tokenizer.h"
#include "wire/forked_child.h"

namespace kvc {
namespace {

// A task that may be asked, and the tokens that it takes of the context.
struct Candidate {
  std::string name;
  int64_t n_tokens;
  bool reads_text;
};

int64_t tokens_of(const TaskSpec& spec, const Experiment& experiment, const Tokenizer& tokenizer) {
  if (spec.likelihood) return spec.likelihood->tokens;
  if (spec.data.made && spec.data.made->tokens) return *spec.data.made->tokens;
  const auto data = load_dataset(spec, data_folder(experiment.data_dir));
  size_t longest = 0;
  for (const auto& sample : data.samples) {
    longest = std::max(longest, tokenizer.encode(render_prompt(spec, data, sample).text, true).size());
  }
  return static_cast<int64_t>(longest) + spec.max_new_tokens;
}

std::vector<Candidate> candidates_of(const std::string& name, const Experiment& experiment, const Tokenizer& tokenizer,
                                     const Paths& paths) {
  std::vector<Candidate> candidates;
  for (const auto& id : tasks_of(name, paths)) {
    const auto spec = load_task(id);
    candidates.push_back({spec.name, tokens_of(spec, experiment, tokenizer), spec.likelihood.has_value()});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.n_tokens < b.n_tokens; });
  return candidates;
}

// Each length's windows after those of all shorter ones, so that a text's are disjoint, whichever lengths are chosen.
void place_windows(const std::vector<Candidate>& candidates, Experiment& experiment) {
  int64_t stride = 0;
  for (const auto& candidate : candidates) stride += candidate.n_tokens;
  int64_t offset = 0;
  for (const auto& candidate : candidates) {
    experiment.windows[candidate.name] = {offset, stride};
    offset += candidate.n_tokens;
  }
}

// The baseline's and the compressor's headline scores of the questions that both answered.
PasskeyResult passkey_of(Database& db, const std::string& full, const std::string& key) {
  auto select = db.prepare(
      "SELECT a.value, b.value FROM score AS a JOIN score AS b ON b.sample = a.sample AND b.position = 0"
      " JOIN sample AS s ON s.cell_key = a.cell_key AND s.sample = a.sample AND s.status = 'ok'"
      " JOIN sample AS t ON t.cell_key = b.cell_key AND t.sample = b.sample AND t.status = 'ok'"
      " WHERE a.position = 0 AND a.cell_key = ? AND b.cell_key = ?");
  select.bind(1, full).bind(2, key);
  PasskeyResult result;
  while (select.step()) {
    ++result.n;
    const bool right_full = select.real(0) == 1, right = select.real(1) == 1;
    result.n_right += right;
    result.n_right_full += right_full;
    result.n_lost += right_full && !right;
    result.n_gained += right && !right_full;
  }
  return result;
}

void add(const PasskeyResult& part, PasskeyResult& sum) {
  sum.n += part.n;
  sum.n_right += part.n_right;
  sum.n_right_full += part.n_right_full;
  sum.n_lost += part.n_lost;
  sum.n_gained += part.n_gained;
}

void add_failures(Database& db, const std::string& cell_key, PresetResult& preset) {
  auto select = db.prepare("SELECT error FROM sample WHERE cell_key = ? AND status = 'failed' ORDER BY sample");
  select.bind(1, cell_key);
  while (select.step()) {
    if (preset.n_failed++ == 0) preset.failure = select.text(0);
  }
}

void set_loss(PasskeyResult& result) {
  if (result.n == 0) return;
  const auto difference = tango_interval({result.n, result.n_lost, result.n_gained});
  result.loss = {-difference.high, -difference.low};
}

// Whether the compressor stored any token in another form than the model's, or dropped it.
bool compressed_anything(Database& db, const std::string& cell_key) {
  auto select =
      db.prepare("SELECT 1 FROM sample WHERE cell_key = ? AND status = 'ok' AND n_encoded_tokens > 0 LIMIT 1");
  return select.bind(1, cell_key).step();
}

void add_text(Database& db, const std::string& key, bool is_lossy, const std::string& task, PresetResult& preset) {
  const bool counts = !is_lossy || compressed_anything(db, key);
  preset.by_length.push_back(counts ? pooled_likelihood(db, {key}) : LikelihoodStretch());
  if (counts) preset.text_keys[task] = key;
}

void pool_texts(Database& db, PresetResult& preset) {
  std::vector<std::string> keys;
  for (const auto& [task, key] : preset.text_keys) keys.push_back(key);
  preset.all = pooled_likelihood(db, keys);
  preset.tails = tails_of(db, keys);
  for (const auto& stretch : preset.by_length) {
    if (stretch.n_blocks > 0) preset.longest = stretch;
  }
}

// The preset of lowest KL among those that are no larger; null: there is none.
const PresetResult* rival_of(const PresetResult& preset, const std::vector<PresetResult>& presets) {
  const PresetResult* best = nullptr;
  for (const auto& other : presets) {
    const bool counts = &other != &preset && !other.is_baseline && other.refused.empty() && other.all.n_blocks > 0;
    if (!counts || other.bytes > preset.bytes) continue;
    if (!best || other.all.kl.value < best->all.kl.value) best = &other;
  }
  return best;
}

PairedKl compare_texts(Database& db, const PresetResult& a, const PresetResult& b) {
  std::vector<std::pair<TextWindows, TextWindows>> cells;
  for (const auto& [task, key] : a.text_keys) {
    const auto other = b.text_keys.find(task);
    if (other != b.text_keys.end()) cells.emplace_back(text_windows(db, key), text_windows(db, other->second));
  }
  return paired_kl(cells);
}

void judge(const CheckSettings& settings, PresetResult& preset) {
  struct Figure {
    std::string name;
    Levels levels;
    double n_tokens_needed = 0;  // that would decide it, of a text's
  };
  std::vector<Figure> figures;
  const auto of_kl = [&](const std::string& where, const LikelihoodStretch& stretch, auto levels) {
    if (stretch.n_blocks == 0) return;
    if (!stretch.kl.interval) {
      figures.push_back({concat("fewer than ", kFewestClusters, " windows", where), {Level::unchanged, Level::breaks}});
      return;
    }
    const double times = times_needed(*stretch.kl.interval, stretch.kl.value, settings.kl);
    figures.push_back({"KL" + where, levels(stretch.kl), static_cast<double>(preset.all.n_tokens) * times});
  };
  of_kl("", preset.all, [&](const Estimate& kl) { return levels_of(*kl.interval, settings.kl); });
  if (preset.by_length.size() > 1) {
    of_kl(" at the longest", preset.longest,
          [&](const Estimate& kl) { return at_least(*kl.interval, kl.value, settings.kl); });
  }
  if (preset.all.n_blocks > 0 && preset.all.top1.interval) {
    const auto [low, high] = *preset.all.top1.interval;
    figures.push_back({"top-1", shown({1 - high, 1 - low}, settings.top1)});
  }
  if (const auto& asked = preset.passkey_all; asked.n > 0) {
    const auto found = static_cast<double>(asked.n_lost - asked.n_gained) / static_cast<double>(asked.n);
    figures.push_back({"passkey", once_shown(asked.loss, found, settings.passkey)});
  }
  if (figures.empty()) {
    preset.verdict = {Level::unchanged, Level::breaks};
    preset.reasons = preset.all.n_blocks > 0 || preset.by_length.empty() ? "nothing was measured"
                                                                         : "nothing was compressed at these lengths";
    return;
  }
  preset.verdict = figures.front().levels;
  for (const auto& figure : figures) preset.verdict = worse_of(preset.verdict, figure.levels);
  std::vector<std::string> reasons;
  for (const auto& [name, levels, n_tokens_needed] : figures) {
    const bool is_worst = preset.verdict.least == preset.verdict.most && levels.least == preset.verdict.least;
    const bool leaves_open = preset.verdict.least != preset.verdict.most && levels.most == preset.verdict.most;
    if (is_worst ? preset.verdict.least != Level::unchanged : leaves_open) reasons.push_back(name);
    if (leaves_open) preset.n_tokens_needed = std::max(preset.n_tokens_needed, n_tokens_needed);
  }
  preset.reasons = join(reasons);
}

void set_bytes(Database& db, const CheckedPreset& cells, int64_t n_tokens, PresetResult& preset) {
  auto select = db.prepare(
      "SELECT n_tokens, kv_bytes, kv_bytes_fp16 FROM cell_size WHERE cell_key = ? AND error = ''"
      " AND ?2 IN (0, n_tokens) ORDER BY n_tokens DESC LIMIT 1");
  for (const auto& key : cells.cell_keys) {
    select.reset();
    if (!select.bind(1, key).bind(2, n_tokens).step()) continue;
    preset.n_size_tokens = select.integer(0);
    preset.bytes = select.real(1), preset.bytes_16bit = select.real(2);
    return;
  }
}

size_t baseline_of(const CheckedCells& cells) {
  const auto found = std::ranges::find_if(cells.presets, [](const auto& preset) { return !preset.is_lossy; });
  return static_cast<size_t>(found - cells.presets.begin());
}

}  // namespace

void choose_tasks(const CheckSettings& settings, int64_t context, const std::filesystem::path& model_folder,
                  const Paths& paths, Experiment& experiment) {
  const auto tokenizer = Tokenizer::load(model_folder);
  std::vector<std::string> chosen;
  experiment.windows.clear();
  int64_t shortest_text = 0;
  bool reads_text = false;
  for (const auto& name : experiment.tasks) {
    auto candidates = candidates_of(name, experiment, tokenizer, paths);
    if (candidates.front().reads_text) shortest_text = candidates.front().n_tokens;
    std::erase_if(candidates, [&](const auto& candidate) { return candidate.n_tokens > context; });
    if (!candidates.empty() && candidates.front().reads_text) place_windows(candidates, experiment);
    const auto n = static_cast<int64_t>(candidates.size());
    candidates.erase(candidates.begin(), candidates.begin() + std::max<int64_t>(0, n - settings.n_lengths));
    for (const auto& candidate : candidates) {
      chosen.push_back(candidate.name);
      reads_text |= candidate.reads_text;
    }
  }
  KVC_CHECK(reads_text, "check: no task that scores running text fits ", context, " tokens; the shortest takes ",
            shortest_text);
  experiment.tasks = chosen;
}

Experiment load_for_model(const std::filesystem::path& file, std::vector<std::string> settings,
                          const std::string& model, const std::string& name, const std::vector<std::string>& texts) {
  settings.push_back("model=" + nlohmann::json(model).dump());
  settings.push_back("name=" + nlohmann::json(name).dump());
  auto experiment = load_experiment(file, settings);
  if (!texts.empty()) experiment.texts = {};
  for (const auto& text : texts) experiment.texts.push_back(std::filesystem::absolute(text));
  return experiment;
}

std::vector<double> measured_kv_bytes(const std::vector<CompressorChoice>& compressors, const ModelShape& shape,
                                      int64_t n_tokens) {
  std::vector<std::string> names;
  for (const auto& compressor : compressors) names.push_back(name_in_errors(compressor));
  const auto measured = in_child(
      names,
      [&](size_t i) -> nlohmann::json {
        const auto compressor = build_compressor(compressors[i], shape).part.compressor;
        return prompt_bytes(*compressor, shape, n_tokens);
      },
      kSecondsToMeasure);
  std::vector<double> bytes;
  for (const auto& of : measured) bytes.push_back(of.get<double>());
  return bytes;
}

void make_texts(const Experiment& experiment, const Paths& paths) {
  if (!experiment.texts.empty()) return;
  const auto sources = load_data_sources(paths.root / "tasks" / "data.yaml");
  for (const auto& name : experiment.tasks) {
    for (const auto& file : data_files(load_task(tasks_of(name, paths).front()))) {
      const auto source = sources.find(file);
      const bool is_there = std::filesystem::is_regular_file(data_path(file, data_folder(experiment.data_dir)));
      if (is_there || source == sources.end() || source->second.command.empty()) continue;
      KVC_CHECK(!user_cache_folder().empty(), "there is no cache folder: set XDG_CACHE_HOME or HOME");
      try {
        make_data(source->second, user_cache_folder() / "data" / file);
      } catch (const Error& e) {
        throw EnvironmentError(concat(e.what(), "; or give your own text: --text FILE"));
      }
    }
  }
}

std::string name_of(const CellRecord& record) {
  return record.label.empty() ? concat(record.plugin, " ", record.options_label) : record.label;
}

size_t baseline_of(const Grid& grid) {
  const auto found = std::find_if(grid.cells.begin(), grid.cells.end(), [](const auto& c) { return !c.record.lossy; });
  KVC_CHECK(found != grid.cells.end(), "check: no compressor is lossless, so there is no baseline");
  return static_cast<size_t>(found->compressor);
}

KeyChannels key_channels(Database& db, const std::string& probe_cell, double outlier_ratio) {
  auto select = db.prepare(
      "SELECT layer, step, avg(value) FROM probe WHERE cell_key = ? AND measure = 'channel_mean_abs' AND tensor = 'k'"
      " GROUP BY layer, step ORDER BY layer, step");
  select.bind(1, probe_cell);
  std::map<int64_t, std::vector<double>> layers;
  while (select.step()) layers[select.integer(0)].push_back(select.real(2));
  KeyChannels found;
  for (const auto& [layer, means] : layers) {
    const double middle = median(means);
    for (size_t channel = 0; channel < means.size(); ++channel) {
      const double ratio = means[channel] / middle;
      ++found.n_channels;
      found.n_outliers += ratio > outlier_ratio;
      if (ratio <= found.largest_ratio) continue;
      found.largest_ratio = ratio;
      found.layer = layer;
      found.channel = static_cast<int64_t>(channel);
    }
  }
  return found;
}

CheckedCells checked_cells(const Grid& grid) {
  CheckedCells cells{.model = grid.cells.front().record.model_label};
  for (const auto& task : grid.tasks) {
    cells.tasks.push_back({task.spec.name, task.spec.likelihood ? task.spec.likelihood->tokens : 0});
  }
  const size_t n_presets = grid.cells.size() / grid.tasks.size();
  for (size_t i = 0; i < n_presets; ++i) {
    const auto& first = grid.cells[i].record;
    auto& preset =
        cells.presets.emplace_back(CheckedPreset{name_of(first), first.plugin, first.options_json, first.lossy, {}});
    for (size_t t = 0; t < grid.tasks.size(); ++t) {
      preset.cell_keys.push_back(grid.cells[t * n_presets + i].record.key);
    }
  }
  return cells;
}

CheckedCells stored_check(Database& db, const std::string& experiment) {
  auto select = db.prepare(
      "SELECT c.task, ifnull(c.task_json ->> '$.likelihood.tokens', 0) AS n_tokens, c.key, c.plugin, c.options_json, "
      "c.is_lossy,"
      "  CASE WHEN e.label <> '' THEN e.label ELSE c.plugin || ' ' || c.options_label END, e.position,"
      "  c.model"
      " FROM experiment_cell AS e JOIN cell AS c ON c.key = e.cell_key AND c.kind = 'eval' WHERE e.experiment = ?"
      " ORDER BY n_tokens = 0, n_tokens, c.task, e.position");
  select.bind(1, experiment);
  CheckedCells cells;
  std::map<std::pair<int64_t, std::string>, size_t> presets;  // by position and name
  bool has_text = false, has_baseline = false;
  while (select.step()) {
    cells.model = select.text(8);
    if (cells.tasks.empty() || cells.tasks.back().name != select.text(0)) {
      cells.tasks.push_back({select.text(0), select.integer(1)});
    }
    has_text |= select.integer(1) > 0;
    const auto [place, is_new] = presets.emplace(std::pair(select.integer(7), select.text(6)), cells.presets.size());
    if (is_new) cells.presets.push_back({select.text(6), select.text(3), select.text(4), select.integer(5) != 0, {}});
    auto& preset = cells.presets[place->second];
    has_baseline |= !preset.is_lossy;
    preset.cell_keys.resize(cells.tasks.size());
    preset.cell_keys.back() = select.text(2);
  }
  for (auto& preset : cells.presets) preset.cell_keys.resize(cells.tasks.size());
  if (!has_text || !has_baseline) cells.presets.clear();
  return cells;
}

std::vector<PresetResult> check_results(const CheckedCells& cells, const CheckSettings& settings, Database& db,
                                        int64_t n_size_tokens) {
  std::vector<PresetResult> presets;
  const size_t full = baseline_of(cells);
  for (size_t i = 0; i < cells.presets.size(); ++i) {
    const auto& of = cells.presets[i];
    auto& preset = presets.emplace_back();
    preset.name = of.name;
    preset.plugin = of.plugin;
    preset.options_json = of.options_json;
    preset.is_baseline = i == full;
    for (size_t t = 0; t < cells.tasks.size(); ++t) {
      const auto& [task, n_tokens] = cells.tasks[t];
      const auto& key = of.cell_keys[t];
      add_failures(db, key, preset);
      if (n_tokens > 0) {
        add_text(db, key, of.is_lossy, task, preset);
      } else if (!of.is_lossy || compressed_anything(db, key)) {
        auto& passkey = preset.passkey[task] = passkey_of(db, cells.presets[full].cell_keys[t], key);
        add(passkey, preset.passkey_all);
      }
    }
    pool_texts(db, preset);
    set_loss(preset.passkey_all);
    judge(settings, preset);
    set_bytes(db, of, n_size_tokens, preset);
  }
  return presets;
}

void put_bytes(const CheckedCells& cells, const std::vector<CompressorChoice>& compressors, const ModelShape& shape,
               int64_t n_tokens, ResultStore& store) {
  const auto is_known = [&](const CheckedPreset& preset) { return store.has_size(preset.cell_keys.front(), n_tokens); };
  if (!std::ranges::all_of(cells.presets, is_known)) {
    const auto bytes = measured_kv_bytes(compressors, shape, n_tokens);
    CacheSize size;
    size.n_tokens = n_tokens;
    size.kv_bytes_fp16 = 4 * shape.n_layers * shape.n_kv_heads * shape.head_dim * n_tokens;
    for (size_t i = 0; i < cells.presets.size(); ++i) {
      size.kv_bytes = std::llround(bytes[i]);
      store.put_sizes(cells.presets[i].cell_keys.front(), {size});
    }
  }
  for (const auto& preset : cells.presets) {
    for (const auto& key : preset.cell_keys) store.has_size(key, n_tokens);
  }
}

int64_t limit_to_decide(const std::vector<PresetResult>& presets, int64_t limit, int64_t first) {
  // The estimate is rough: what seems to need several times as much as there will be is tried all the same.
  constexpr double kMostAtOnce = 4, kMostInAll = 16, kTried = 64, kRoom = 1.2;
  const auto now = static_cast<double>(limit), most = kMostInAll * static_cast<double>(first);
  double wanted = 0;
  for (const auto& preset : presets) {
    if (preset.is_baseline || preset.all.n_tokens == 0 || preset.n_tokens_needed == 0) continue;
    const double needed = kRoom * now * preset.n_tokens_needed / static_cast<double>(preset.all.n_tokens);
    if (needed > kTried * static_cast<double>(first)) continue;
    wanted = std::max(wanted, std::min({needed, kMostAtOnce * now, most}));
  }
  return wanted > now ? static_cast<int64_t>(std::ceil(wanted)) : 0;
}

void pair_presets(Database& db, std::vector<PresetResult>& presets) {
  std::vector<std::optional<double>> p_values;
  for (auto& preset : presets) {
    const bool counts = !preset.is_baseline && preset.all.n_blocks > 0;
    if (const auto* rival = counts ? rival_of(preset, presets) : nullptr) {
      preset.rival = rival->name;
      preset.against_rival = compare_texts(db, *rival, preset);
    }
    p_values.push_back(preset.against_rival.p);
  }
  const auto adjusted = holm(p_values);
  for (size_t i = 0; i < presets.size(); ++i) presets[i].p_holm = adjusted[i];
}

}  // namespace kvc
