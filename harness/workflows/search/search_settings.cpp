#include "search/search_settings.h"

#include <algorithm>
#include <sstream>

#include "search/search_space.h"
#include "text/files.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using nlohmann::json;

std::vector<int64_t> parse_levels(const std::string& allowed) {  // "2, 4, 8"
  std::vector<int64_t> levels;
  std::istringstream text(allowed);
  for (std::string word; std::getline(text >> std::ws, word, ',');) levels.push_back(std::stoll(word));
  std::sort(levels.begin(), levels.end());
  return levels;
}

// The option that is asked for, or the only one of its type.
OptionDescription option_of(const PluginLibrary& library, const std::string& asked) {
  const std::string plugin = library.descriptor().name;
  std::vector<OptionDescription> known;
  std::vector<std::string> names;
  for (const auto& described : library.describe_options()) {
    KVC_CHECK(described.name != asked || described.type == "integers", plugin, ": option '", described.name,
              "' is of type ", described.type, ", expected one integer per layer");
    if (described.type != "integers") continue;
    known.push_back(described);
    names.push_back(described.name);
  }
  KVC_CHECK(!known.empty(), plugin, ": it has no option with one integer per layer");
  KVC_CHECK(!asked.empty() || known.size() == 1, plugin,
            ": several options take one integer per layer, expected --option with one of: ", join(names));
  if (asked.empty()) return known.front();
  const auto found = std::find(names.begin(), names.end(), asked);
  KVC_CHECK(found != names.end(), plugin, ": ", unknown_name("option with one integer per layer", asked, names));
  return known[static_cast<size_t>(found - names.begin())];
}

}  // namespace

SearchSettings resolved(SearchSettings settings, const PluginLibrary& library, const CompressorChoice& choice) {
  const auto option = option_of(library, settings.option);
  settings.option = option.name;
  KVC_CHECK(!choice.options.contains(option.name), choice.where, ": error: option '", option.name,
            "' is searched: leave it out");
  const auto allowed = parse_levels(option.allowed);
  std::sort(settings.levels.begin(), settings.levels.end());
  settings.levels.erase(std::unique(settings.levels.begin(), settings.levels.end()), settings.levels.end());
  for (const int64_t level : settings.levels) {
    KVC_CHECK(std::binary_search(allowed.begin(), allowed.end(), level), choice.plugin, ": level ", level,
              " of option '", option.name, "', allowed: ", option.allowed);
  }
  if (settings.levels.empty()) settings.levels = allowed;
  return settings;
}

SearchRecord search_record(const Experiment& experiment, const Grid& grid, const SearchSettings& settings,
                           const std::vector<SearchSample>& samples) {
  json ids, cells;
  for (const auto& sample : samples) ids[sample.task->spec.name].push_back(sample.sample->id);
  // Of model, task, plugin, options, settings; accuracies are stored without the generations that they are of.
  for (const auto& cell : grid.cells) cells.push_back({cell.record.key, cell.record.scoring_json});
  std::vector<std::string> tasks;
  for (const auto& task : grid.tasks) tasks.push_back(task.spec.name);
  SearchRecord record;
  record.calibration_key =
      sha256_hex(json{{"format", 1}, {"cells", cells}, {"samples", ids}, {"option", settings.option}}.dump());
  record.key = sha256_hex(json{
      {"calibration", record.calibration_key},
      {"levels", settings.levels},
      {"budget", settings.budget},
      {"seed", settings.seed},
      {"n_candidates",
       settings.n_candidates}}.dump());
  record.experiment = experiment.name;
  record.model_label = experiment.model_name;
  record.tasks = join(tasks);
  record.samples_json = ids.dump();
  record.plugin = grid.cells.front().record.plugin;
  record.plugin_sha256 = grid.cells.front().record.plugin_sha256;
  record.option = settings.option;
  record.options_json = experiment.compressors.front().options.dump();
  record.levels = to_text(settings.levels);
  record.budget_share = settings.budget;
  record.seed = settings.seed;
  record.n_candidates = settings.n_candidates;
  record.n_samples = static_cast<int64_t>(samples.size());
  return record;
}

}  // namespace kvc
