#include <cstdio>
#include <filesystem>
#include <optional>

#include "analysis/group_table.h"
#include "analysis/likelihood_table.h"
#include "analysis/query.h"
#include "analysis/shared_options.h"
#include "analysis/summary.h"
#include "cli/experiment_notes.h"
#include "cli/verbs.h"
#include "experiment/read_compressors.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "render/numbers.h"
#include "render/terminal.h"
#include "run/estimate_run.h"
#include "run/progress.h"
#include "run/run_bench.h"
#include "run/run_experiment.h"
#include "text/message.h"
#include "text/nearest.h"
#include "text/several_errors.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::vector<std::string> files;
  std::vector<std::string> settings, compressors;
  std::string database, allow_plugins, plan, shard;
  std::optional<int64_t> limit;
  std::optional<RunKind> kind;  // that a file must have
  bool dry_run = false, verify = false, wide = false;
};

void show(Table table, const RunArguments& arguments, const std::string& before = "") {
  share_options(table);
  std::fputs((before + write_shown(table, "markdown", arguments.wide)).c_str(), stdout);
}

void print_plan(const Experiment& experiment, const Grid& grid, const RunPlan& plan, const fs::path& database) {
  std::printf("experiment %s: %zu cells (%zu tasks x %zu compressors) on %s, database %s\n", experiment.name.c_str(),
              grid.cells.size(), grid.tasks.size(), grid.worker.compressors.size(), experiment.model_name.c_str(),
              database.c_str());
  for (const auto& cell : grid.cells) {
    std::printf("  %-20s %-12s %s: %ld samples\n", cell.record.task.c_str(), cell.record.plugin.c_str(),
                cell.record.options_label.c_str(), cell.record.n_samples);
  }
  std::printf("%ld samples are stored, %ld are missing; they need %ld prefills\n", plan.n_present, plan.n_missing,
              plan.n_prompts);
}

int exit_code(const Grid& grid, ResultStore& store, const RunOutcome& outcome) {
  int code = outcome.n_failed > 0 || !grid.left_out.empty() ? kSomeFailed : kOk;
  for (const auto& cell : grid.cells) {
    const auto status = store.cell_status(cell.record.key);
    if (!status || status->suspect.empty()) continue;
    std::fprintf(stderr, "suspect: %s %s (%s): %s\n", cell.record.task.c_str(), cell.record.plugin.c_str(),
                 cell.record.options_label.c_str(), status->suspect.c_str());
    if (code == kOk) code = kSuspect;
  }
  return code;
}

// Those of the command line, after the file's own; files that they name are relative to the current folder.
template <class Any>
void add_compressors(const std::vector<std::string>& given, Any& experiment) {
  for (const auto& text : given) {
    auto choice = compressor_argument("--compressor", text);
    if (fs::is_regular_file(choice.plugin)) choice.plugin = fs::absolute(choice.plugin).lexically_normal().string();
    experiment.compressors.push_back(std::move(choice));
    experiment.config.overrides.push_back("compressor " + text);
  }
}

int run_tasks(const RunArguments& arguments, const Paths& paths, const std::vector<std::string>& settings,
              const std::filesystem::path& file) {
  auto experiment = load_experiment(file, settings);
  add_compressors(arguments.compressors, experiment);
  if (arguments.dry_run && tell_missing_model(experiment.name, experiment.model_name)) return kOk;
  place_model(experiment);
  experiment.allow_plugins = arguments.allow_plugins;
  const auto grid = expand_grid(experiment, paths, arguments.verify);
  for (const auto& task : grid.left_out) std::fprintf(stderr, "left out: %s\n", task.c_str());
  print_prompt_notes(experiment, grid, paths);
  const fs::path database = database_of(arguments.database, experiment.database, experiment.name);

  if (arguments.dry_run) {
    print_machine_notes(experiment);
    std::optional<ResultStore> store;
    if (fs::exists(database)) store = ResultStore::open_readonly(database);
    print_plan(experiment, grid, plan_run(grid, experiment, store ? &*store : nullptr), database);
    std::fputs(time_line(estimate_run(grid, experiment, store ? &*store : nullptr), experiment).c_str(), stdout);
    return kOk;
  }
  auto store = open_store(database);
  const auto outcome = run_grid(grid, experiment, store);
  std::fprintf(stderr, "%ld samples run now (%ld failed), %ld already stored; database %s\n", outcome.n_run,
               outcome.n_failed, outcome.n_present, database.c_str());
  if (outcome.signal) return report_interrupt(outcome.signal, database);
  if (experiment.kind == RunKind::probe) {
    show(named_table(store.database(), "probe", experiment.name), arguments);
    return exit_code(grid, store, outcome);
  }
  SummaryOptions shown;  // this file's cells, whatever else the database holds under that name
  shown.experiment = experiment.name;
  for (const auto& cell : grid.cells) shown.cell_keys.insert(cell.record.key);
  show(summary_table(store.database(), shown), arguments);
  const auto likelihood = likelihood_table(store.database(), {experiment.name, false, shown.cell_keys});
  if (!likelihood.rows.empty()) show(likelihood, arguments, "\n");
  const auto groups = group_table(store.database(), shown, task_groups(paths.root / "tasks"));
  if (!groups.rows.empty()) show(groups, arguments, "\n");
  const size_t width = arguments.wide ? 0 : standard_output().width;
  std::fputs(plot_of_summary(store.database(), shown, width).c_str(), stdout);
  return exit_code(grid, store, outcome);
}

void print_bench_plan(const BenchExperiment& experiment, const std::vector<BenchCell>& cells,
                      const fs::path& database) {
  const size_t n = experiment.kind == RunKind::bench ? experiment.points.size() : experiment.searches.size();
  std::printf("experiment %s: %zu cells (%zu compressors x %zu %s), database %s\n", experiment.name.c_str(),
              cells.size(), experiment.compressors.size(), n, experiment.kind == RunKind::bench ? "points" : "limits",
              database.c_str());
  for (const auto& cell : cells) {
    std::printf("  %-20s %-12s %s\n", cell.record.task.c_str(), cell.record.plugin.c_str(),
                cell.record.options_label.c_str());
  }
  std::printf("no time estimate: times are learned during the run and shown as time left\n");
}

int run_bench_file(const RunArguments& arguments, const Paths& paths, const std::vector<std::string>& settings,
                   const std::filesystem::path& file) {
  auto experiment = load_bench(file, settings);
  add_compressors(arguments.compressors, experiment);
  if (arguments.dry_run && tell_missing_model(experiment.name, experiment.subject.model)) return kOk;
  place_model(experiment);
  experiment.allow_plugins = arguments.allow_plugins;
  const auto cells = expand_bench(experiment, paths);
  const fs::path path = database_of(arguments.database, experiment.database, experiment.name);
  if (arguments.dry_run) {
    print_bench_plan(experiment, cells, path);
    return kOk;
  }
  auto store = open_store(path);
  const auto outcome = run_bench(experiment, cells, store);
  std::fprintf(stderr, "%ld %s run now (%ld failed), %ld already stored; database %s\n", outcome.n_run,
               experiment.kind == RunKind::bench ? "points" : "searches", outcome.n_failed, outcome.n_present,
               path.c_str());
  if (outcome.signal) return report_interrupt(outcome.signal, path);
  show(named_table(store.database(), to_string(experiment.kind), experiment.name), arguments);
  return outcome.n_failed > 0 ? kSomeFailed : kOk;
}

int run_file(const RunArguments& arguments, const std::string& file) {
  const auto paths = find_paths();
  auto settings = arguments.settings;
  if (arguments.limit) settings.push_back("limit=" + std::to_string(*arguments.limit));
  const auto path = experiment_file(paths, file);
  const auto kind = experiment_kind(path, settings);
  KVC_CHECK(!arguments.kind || kind == *arguments.kind, file, ": kind ", to_string(kind), ", expected ",
            to_string(*arguments.kind), "; `kvc run` runs every kind");
  if (is_timed(kind)) return run_bench_file(arguments, paths, settings, path);
  if (kind == RunKind::search) {
    KVC_CHECK(!arguments.dry_run, file, ": --dry-run of kind search, expected eval, probe, bench or capacity");
    return run_search_file(file, settings, arguments.database, arguments.allow_plugins);
  }
  return run_tasks(arguments, paths, settings, path);
}

// One of several files: a bad one says so, and the others run all the same.
int run_or_say(const RunArguments& arguments, const std::string& file) {
  try {
    return run_file(arguments, file);
  } catch (const EnvironmentError& e) {
    std::fprintf(stderr, "kvc: %s: %s\n", file.c_str(), one_line(e.what()).c_str());
    return kEnvironment;
  } catch (const Error& e) {
    for (const auto& line : lines_of(e)) std::fprintf(stderr, "kvc: %s: %s\n", file.c_str(), line.c_str());
    return kUsage;
  }
}

// Takes the files out of `files` that --limit has no meaning for: their points are no samples. -> one line that names
// them; "" where there are none
std::string refuse_limit(const RunArguments& arguments, std::vector<std::string>& files) {
  if (!arguments.limit) return "";
  const auto paths = find_paths();
  std::vector<std::string> refused;
  std::erase_if(files, [&](const std::string& file) {
    try {
      const auto kind = experiment_kind(experiment_file(paths, file), arguments.settings);
      if (!is_timed(kind)) return false;
      refused.push_back(concat(file, " (", to_string(kind), ")"));
      return true;
    } catch (const Error&) {
      return false;  // the file says what is wrong with it when it is its turn
    }
  });
  if (refused.empty()) return "";
  return concat("--limit ", *arguments.limit, ": it limits samples per task, which these do not have: ", join(refused),
                files.empty() ? "" : "; the other files run");
}

int run_shard_of_plan(const RunArguments& arguments) {
  KVC_CHECK(arguments.files.empty(), "--plan ", arguments.plan, ": the plan names its experiments, expected no file");
  KVC_CHECK(arguments.settings.empty() && !arguments.limit && !arguments.dry_run, "--plan ", arguments.plan,
            ": the plan fixes what runs, expected no --set, --limit or --dry-run");
  return run_planned_shard(arguments.plan, arguments.shard, arguments.database, arguments.allow_plugins,
                           arguments.verify);
}

int run_files(const RunArguments& arguments) {
  if (!arguments.plan.empty()) return run_shard_of_plan(arguments);
  KVC_CHECK(arguments.shard.empty(), "--shard ", arguments.shard, " needs --plan");
  KVC_CHECK(!arguments.files.empty(), "file is required");
  auto files = arguments.files;
  const auto refusal = refuse_limit(arguments, files);
  if (!refusal.empty()) std::fprintf(stderr, "kvc: %s\n", refusal.c_str());
  int code = refusal.empty() ? kOk : kUsage;
  for (const auto& file : files) {
    code = std::max(code, arguments.files.size() == 1 ? run_file(arguments, file) : run_or_say(arguments, file));
    if (code > 128) break;  // interrupted
  }
  return code;
}

void add_run_options(Verb verb, RunArguments& arguments) {
  verb.add_option("--compressor", arguments.compressors,
                  "another compressor, as in the file's list: NAME, FILE.py, or 'NAME: {option: value}'");
  verb.add_option("--db", arguments.database,
                  "results database (default: the file's `database`, or results/<name>.sqlite)");
  add_allow_plugins(verb, arguments.allow_plugins);
  verb.add_flag("--dry-run", arguments.dry_run, "print what would run, and run nothing");
  add_wide(verb, arguments.wide);
}

}  // namespace

int report_interrupt(int signal, const std::string& database) {
  std::fprintf(stderr, "kvc: interrupted; finished samples are in %s; run the same command to resume\n",
               database.c_str());
  return 128 + signal;
}

void add_allow_plugins(Verb verb, std::string& list) {
  verb.add_option("--allow-plugins", list,
                  "file of SHA-256 sums, as sha256sum prints them; only these plugins are loaded");
}

void add_bench_verb(Verb program) {
  auto arguments = std::make_shared<RunArguments>();
  arguments->kind = RunKind::bench;
  auto verb = program.add_subcommand(
      "bench", "Measures the times and the memory that an experiment of kind bench names, as `run` does");
  verb.add_option("file", arguments->files, "experiment files (YAML) of kind bench").required();
  verb.add_option("--set", arguments->settings, "path=value overrides the file, e.g. bench.prompt_tokens=[32768]");
  add_run_options(verb, *arguments);
  verb.on_call([arguments] { return run_files(*arguments); });
}

void add_run_verb(Verb program) {
  auto arguments = std::make_shared<RunArguments>();
  auto verb = program.add_subcommand("run", "Runs an experiment (only what its database lacks) and prints the results");
  verb.add_option("file", arguments->files,
                  "experiment files (YAML), or names of those in configs/, such as quickstart");
  verb.add_option("-L,--limit", arguments->limit, "only the first N samples of each task (of a probe: prompts)");
  verb.add_option("--set", arguments->settings, "path=value overrides the file, e.g. compressors.1.kivi.bits=4");
  verb.add_option("--plan", arguments->plan, "run one shard of this plan (made by `kvc plan`) instead of files");
  verb.add_option("--shard", arguments->shard,
                  "I/N, from 0 (default: from SLURM_ARRAY_TASK_ID or similar, plus KVC_SHARD_OFFSET)");
  add_run_options(verb, *arguments);
  verb.add_flag("--verify", arguments->verify, "hash the model's weights again instead of using cached hashes");
  verb.on_call([arguments] { return run_files(*arguments); });
}

}  // namespace kvc
