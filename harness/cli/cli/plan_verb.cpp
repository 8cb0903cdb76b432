#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cli/verbs.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "model_lookup/model_path.h"
#include "plan/assign_cells.h"
#include "plan/make_plan.h"
#include "plan/run_shard.h"
#include "plan/slurm_script.h"
#include "render/numbers.h"
#include "text/files.h"
#include "text/message.h"
#include "text/nearest.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct PlanFileArguments {
  std::vector<std::string> files, settings;
  std::string out = "plan.json", cluster, clusters, missing, pilot;
  std::optional<int64_t> n_shards;
  std::optional<double> hours;
};

// What jobs of other machines find models, data and hashes by.
std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> found;
  for (const char* name : {"KVC_ROOT", "KVC_DATA", "KVC_MODELS", "KVC_GIT", "HF_HOME", "HF_HUB_CACHE"}) {
    const char* value = std::getenv(name);
    if (value && *value) found[name] = value;
  }
  return found;
}

// Whether it is written as a name and not as a path: fetched into the folder of models.
bool is_fetched(const std::string& model, const Paths& paths) { return !is_model_path(below_root(paths, model)); }

ScriptPlace place_of(const Plan& plan, const fs::path& file) {
  const auto paths = find_paths();
  ScriptPlace place;
  place.program = paths.program.string(), place.plan = file.string();
  place.array_script = fs::path(file).replace_extension(".sbatch").string();
  place.merged = fs::path(file).replace_extension(".sqlite").string();
  place.environment = environment();
  std::set<std::string> models;
  for (const auto& experiment : plan.experiments) {
    if (is_fetched(experiment.model, paths) && models.insert(experiment.model).second)
      place.fetched.push_back(experiment.model);
  }
  return place;
}

// Minutes, as sbatch takes them.
std::string time_limit(const std::optional<double>& hours) {
  return hours ? concat(static_cast<int64_t>(std::ceil(*hours * 60))) : "";
}

void tell(const Plan& plan) {
  std::printf("%zu cells of %zu experiments in %zu shards\n", plan.cells.size(), plan.experiments.size(),
              plan.shards.size());
  double longest = 0, all = 0;
  bool is_known = true;
  for (const auto& shard : plan.shards) {
    const auto seconds = shard_seconds(plan, shard);
    is_known = is_known && seconds;
    longest = std::max(longest, seconds.value_or(0)), all += seconds.value_or(0);
  }
  if (is_known) {
    std::printf("predicted: %s in all, %s for the longest shard\n", duration_in_words(all).c_str(),
                duration_in_words(longest).c_str());
  }
  for (size_t e = 0; e < plan.experiments.size(); ++e) {
    std::printf("  %s: %s\n", plan.experiments[e].name.c_str(), plan.predicted_by[e].c_str());
  }
  for (const auto& array : plan.arrays) {
    int64_t bytes = 0;
    for (size_t s = array.first; s < array.first + array.n; ++s) {
      for (const size_t c : plan.shards[s]) bytes = std::max(bytes, plan.cells[c].bytes);
    }
    std::printf("  %zu shards%s%s, up to %.1f GB (predicted)\n", array.n,
                array.memory_class.empty() ? "" : " for class ", array.memory_class.c_str(),
                static_cast<double>(bytes) / 1e9);
  }
}

// A cell is not split: one that is longer than a shard may be is told, for its shard will be stopped and go on.
void tell_long_cells(const Plan& plan, double hours) {
  for (const auto& shard : plan.shards) {
    const auto seconds = shard_seconds(plan, shard);
    if (!seconds || *seconds <= hours * 3600) continue;
    const auto& cell = plan.cells[shard.front()];
    std::fprintf(stderr, "%s, %s is predicted to take %s, longer than --hours %g: its shard will stop and resume\n",
                 cell.task.c_str(), cell.compressor.c_str(), duration_in_words(*seconds).c_str(), hours);
  }
}

int plan_files(const PlanFileArguments& arguments) {
  KVC_CHECK(arguments.n_shards.has_value() != arguments.hours.has_value(), "plan: expected --shards or --hours",
            arguments.hours ? ", not both" : "");
  PlanRequest request;
  request.files = arguments.files, request.settings = arguments.settings;
  request.plan = fs::absolute(arguments.out);
  KVC_CHECK(request.plan.extension() == ".json", "--out ", arguments.out, ", expected a file *.json");
  request.n_shards = arguments.n_shards, request.hours = arguments.hours;
  request.missing = arguments.missing, request.pilot = arguments.pilot;
  if (!arguments.cluster.empty()) request.cluster = load_cluster(clusters_file(arguments.clusters), arguments.cluster);
  const auto plan = make_plan(request);
  const auto used = plan.database_of(0);
  KVC_CHECK(arguments.missing.empty() || !fs::exists(used), "--out ", arguments.out, ": '", used.string(),
            "' is a shard of another plan; expected another name");
  write_plan(plan, request.plan);
  const auto place = place_of(plan, request.plan);
  const auto cluster = request.cluster.value_or(Cluster{});
  const auto submit = fs::path(request.plan).replace_extension(".submit.sh");
  write_file(place.array_script, array_script(plan, place, cluster, time_limit(request.hours)));
  write_file(submit, submit_script(plan, place, cluster));
  fs::permissions(submit, fs::perms::owner_exec, fs::perm_options::add);
  tell(plan);
  if (arguments.hours) tell_long_cells(plan, *arguments.hours);
  std::printf("written: %s, %s\nnext: bash %s\n", request.plan.c_str(), place.array_script.c_str(), submit.c_str());
  return kOk;
}

}  // namespace

int run_planned_shard(const std::string& plan_file, const std::string& shard, const std::string& database,
                      const std::string& allow_plugins, bool verify) {
  const auto plan = load_plan(plan_file);
  const ShardRequest request{shard_of(shard, plan.shards.size()), database, allow_plugins, verify};
  const auto outcome = run_shard(plan, request);
  const auto where = database.empty() ? plan.database_of(request.shard).string() : database;
  std::fprintf(stderr, "shard %zu/%zu: %ld samples run now (%ld failed), %ld already stored; database %s\n",
               request.shard, plan.shards.size(), outcome.n_run, outcome.n_failed, outcome.n_present, where.c_str());
  if (outcome.signal != 0) {
    const int code = report_interrupt(outcome.signal, where);
    return outcome.signal == SIGINT ? code : static_cast<int>(kStopped);
  }
  return outcome.n_failed > 0 ? kSomeFailed : kOk;
}

void add_plan_verb(Verb program) {
  auto arguments = std::make_shared<PlanFileArguments>();
  auto verb =
      program.add_subcommand("plan", "Splits experiments into shards for a cluster and writes the Slurm scripts");
  verb.add_option("file", arguments->files, "experiment files (YAML) of kind eval").required();
  verb.add_option("--set", arguments->settings, "path=value overrides every file");
  verb.add_option("--shards", arguments->n_shards, "number of shards; at most the number of cells").positive();
  verb.add_option("--hours", arguments->hours,
                  "make as many shards as needed to finish each within this time (predicted)");
  verb.add_option("--cluster", arguments->cluster,
                  "name in clusters.yaml, which gives partition, account, machines and limits");
  verb.add_option("--clusters", arguments->clusters,
                  "cluster file (default: ./clusters.yaml or ~/.config/kvc/clusters.yaml)");
  verb.add_option("--missing", arguments->missing, "plan only what this database lacks");
  verb.add_option(
      "--pilot", arguments->pilot,
      "database of a few samples, from which times are predicted (default: the one of --missing, or a trial run)");
  verb.add_option("--out", arguments->out, "plan to write; scripts and the shards' folder go to the same folder")
      .show_default();
  verb.on_call([arguments] { return plan_files(*arguments); });
}

}  // namespace kvc
