#include <cstdio>
#include <filesystem>

#include "analysis/definition_change.h"
#include "analysis/entries.h"
#include "cli/verbs.h"
#include "experiment/grid.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "run/run_bench.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct DiffArguments {
  std::string before, after;
  std::vector<std::string> settings;
};

struct Definition {
  std::string name;
  std::vector<CellRecord> cells;
};

bool is_database(const std::string& file) { return fs::path(file).extension() == ".sqlite"; }

Definition of_file(const std::string& file, const std::vector<std::string>& settings) {
  const auto paths = find_paths();
  const auto path = experiment_file(paths, file);
  Definition definition;
  if (is_timed(experiment_kind(path, settings))) {
    auto experiment = load_bench(path, settings);
    place_model(experiment);
    definition.name = experiment.name;
    for (const auto& cell : expand_bench(experiment, paths)) definition.cells.push_back(cell.record);
    return definition;
  }
  auto experiment = load_experiment(path, settings);
  place_model(experiment);
  definition.name = experiment.name;
  for (const auto& cell : expand_grid(experiment, paths).cells) definition.cells.push_back(cell.record);
  return definition;
}

// The experiment of the other side's name.
Definition of_database(const std::string& file, const std::string& name) {
  auto store = ResultStore::open_readonly(file);
  check_stored_experiment(store.database(), name);
  return {name, stored_cells(store.database(), name)};
}

int diff(const DiffArguments& arguments) {
  KVC_CHECK(!is_database(arguments.after), "diff: '", arguments.after,
            "' is a database; expected an experiment file as the second argument");
  const auto after = of_file(arguments.after, arguments.settings);
  const auto before =
      is_database(arguments.before) ? of_database(arguments.before, after.name) : of_file(arguments.before, {});
  const auto change = definition_change(before.cells, after.cells);
  for (const auto& field : change.fields) std::printf("%s\n", field.c_str());
  std::printf("%ld cells are the same, %ld only in %s, %ld only in %s\n", change.n_alike, change.n_only_before,
              arguments.before.c_str(), change.n_only_after, arguments.after.c_str());
  return kOk;
}

}  // namespace

void add_diff_verb(Verb program) {
  auto arguments = std::make_shared<DiffArguments>();
  auto verb = program.add_subcommand("diff", "Shows how the cells of two experiments differ");
  verb.add_option("before", arguments->before,
                  "experiment file (YAML), or a results database that has an experiment with the second file's name")
      .required();
  verb.add_option("after", arguments->after, "experiment file (YAML)").required();
  verb.add_option("--set", arguments->settings, "path=value overrides the second file");
  verb.on_call([arguments] { return diff(*arguments); });
}

}  // namespace kvc
