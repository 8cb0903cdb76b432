#include <algorithm>
#include <cstdio>
#include <memory>

#include "analysis/query.h"
#include "cli/verbs.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "render/table.h"
#include "run/progress.h"
#include "search/search_layers.h"
#include "search/search_score.h"
#include "text/files.h"
#include "text/yaml_write.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct SearchArguments {
  std::string file, database, output, allow_plugins;
  std::vector<std::string> settings;
  SearchSettings search;
};

void make_folder_of(const fs::path& file) {
  if (file.has_parent_path()) fs::create_directories(file.parent_path());
}

// The experiment as it was read, with the best plan as the compressor's option.
void write_experiment(const SearchArguments& arguments, const Paths& paths, const Experiment& experiment,
                      const Grid& grid, const SearchResult& result) {
  auto options = grid.worker.compressors.front().options;  // their files found from anywhere
  options[result.option] = to_text(result.best);
  auto settings = arguments.settings;
  settings.push_back("name=" + json(experiment.name + "-searched").dump());
  json compressors = json::array();
  compressors.push_back({{experiment.compressors.front().plugin, options}});
  settings.push_back("compressors=" + compressors.dump());
  auto found = load_experiment_yaml(experiment_file(paths, arguments.file), settings).merged();
  for (const char* key : {"kind", "search", "like"}) found.remove(key);
  make_folder_of(arguments.output);
  write_file(arguments.output,
             concat("# Found by kvc search: search ", result.key, "\n# budget ", arguments.search.budget, ", seed ",
                    arguments.search.seed, "\n", write_yaml(found)));
}

// What was chosen by a sample says less of it.
void warn_of_overlap(const Experiment& experiment, const Grid& grid, int64_t n_samples) {
  for (const auto& task : grid.tasks) {
    const auto n = static_cast<int64_t>(task.data.samples.size());
    if (experiment.limit.value_or(n) + n_samples <= n) continue;
    std::fprintf(stderr,
                 "note: %s: the experiment's samples include calibration samples; a limit of %ld keeps them disjoint\n",
                 task.spec.name.c_str(), std::max<int64_t>(n - n_samples, 0));
  }
}

void print_result(const SearchArguments& arguments, const SearchResult& result, ResultStore& store) {
  const auto best = run_query(store.database(),
                              "SELECT rank, plan, family, nll, 100 * kv_share AS kv_percent,"
                              " 100 * n_correct / n_samples AS accuracy_percent FROM v_search_candidate"
                              " WHERE search_key = '" +
                                  result.key + "' AND rank <= 10 ORDER BY rank");
  std::fputs(write_markdown(best).c_str(), stdout);
  std::printf("%s %s; %ld candidates scored now, %ld already stored; database %s, experiment %s\n",
              result.option.c_str(), to_text(result.best).c_str(), result.n_scored, result.n_present,
              arguments.database.c_str(), arguments.output.c_str());
}

// Counts samples of candidates, those of all stages taken for alike; what was stored already took no time.
OnSearchStep search_progress(const SearchSettings& settings, const Grid& grid) {
  struct Stage {
    const char* name;
    int64_t n_total, n_done = 0, n_present = 0;
  };
  const auto n = static_cast<int64_t>(search_samples(grid, settings.n_samples).size());
  std::vector<Stage> stages{{"the model's own answers", n},
                            {"likelihoods of candidates", n * settings.n_candidates},
                            {"accuracy of the best", n * settings.n_rescored}};
  return [stages, progress = std::make_shared<Progress>()](SearchStage stage, int64_t n_done, int64_t n_present,
                                                           int64_t n_total) mutable {
    auto& now = stages.at(static_cast<size_t>(stage));
    now.n_done = n_done, now.n_present = n_present, now.n_total = n_total;
    ProgressState state{.unit = "samples", .doing = now.name};
    int64_t n_present_in_all = 0;
    for (const auto& each : stages)
      state.n_done += each.n_done, state.n_total += each.n_total, n_present_in_all += each.n_present;
    state.seconds_left =
        left_by_count(state.n_done - n_present_in_all, state.n_total - n_present_in_all, progress->seconds_so_far());
    progress->show(state);
  };
}

int search(SearchArguments arguments, const Experiment& experiment) {
  const auto paths = find_paths();
  arguments.database = database_of(arguments.database, experiment.database, experiment.name);
  if (arguments.output.empty()) {
    arguments.output = (fs::path(arguments.database).parent_path() / (experiment.name + "-searched.yaml")).string();
  }
  const auto grid = search_grid(experiment, paths, arguments.search);
  warn_of_overlap(experiment, grid, arguments.search.n_samples);
  auto store = open_store(arguments.database);
  const auto result = search_layers(experiment, grid, arguments.search, store, search_progress(arguments.search, grid));
  write_experiment(arguments, paths, experiment, grid, result);
  print_result(arguments, result, store);
  return kOk;
}

Experiment experiment_of(const SearchArguments& arguments) {
  auto experiment = load_experiment(experiment_file(find_paths(), arguments.file), arguments.settings);
  place_model(experiment);
  experiment.allow_plugins = arguments.allow_plugins;
  return experiment;
}

}  // namespace

int run_search_file(const std::string& file, const std::vector<std::string>& settings, const std::string& database,
                    const std::string& allow_plugins) {
  SearchArguments arguments{.file = file,
                            .database = database,
                            .output = "",
                            .allow_plugins = allow_plugins,
                            .settings = settings,
                            .search = {}};
  const auto experiment = experiment_of(arguments);
  arguments.search = experiment.search;
  return search(arguments, experiment);
}

void add_search_verb(Verb program) {
  auto arguments = std::make_shared<SearchArguments>();
  auto& settings = arguments->search;
  auto verb = program.add_subcommand("search", "Searches per-layer values of an option (bits) under a size budget");
  verb.add_option("file", arguments->file, "experiment file (YAML) with one compressor").required();
  verb.add_option("--budget", settings.budget, "cache size, as a fraction of 16-bit storage")
      .required()
      .range(0.0, 1.0);
  verb.add_option("--option", settings.option,
                  "option that takes one integer per layer (default: the only such option)");
  verb.add_option("--levels", settings.levels, "values to try, e.g. 2,4 (default: all that are allowed)")
      .delimiter(',');
  verb.add_option("--candidates", settings.n_candidates, "candidates to try").positive().show_default();
  verb.add_option("--rescore", settings.n_rescored, "how many of the best candidates to generate answers with")
      .positive()
      .show_default();
  verb.add_option("--samples", settings.n_samples, "calibration samples per task, taken from its end")
      .positive()
      .show_default();
  verb.add_option("--seed", settings.seed, "seed of random candidates").non_negative().show_default();
  verb.add_option("--set", arguments->settings, "path=value overrides the file, e.g. threads=4");
  verb.add_option("--db", arguments->database, "results database (default: results/<name>.sqlite)");
  add_allow_plugins(verb, arguments->allow_plugins);
  verb.add_option("--output", arguments->output,
                  "experiment file to write (default: <name>-searched.yaml in the database's folder)");
  verb.on_call([arguments] { return search(*arguments, experiment_of(*arguments)); });
}

}  // namespace kvc
