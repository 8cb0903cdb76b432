#include "plan/plan.h"

#include "kvc/check.h"
#include "text/files.h"
#include "text/message.h"
#include "text/optional_json.h"

namespace kvc {

namespace fs = std::filesystem;

KVC_DEFINE_JSON(PlannedExperiment, file, settings, name, model, load_seconds)
KVC_DEFINE_JSON(PlannedCell, key, experiment, task, compressor, n_samples, elsewhere, is_baseline, seconds,
                prefill_seconds, bytes)
KVC_DEFINE_JSON(PlannedArray, memory_class, first, n)
KVC_DEFINE_JSON(Plan, format, name, folder, cluster, experiments, cells, shards, arrays, predicted_by)

namespace {

void check_plan(const Plan& plan, const std::string& where) {
  KVC_CHECK(plan.format == 1, where, "format is ", plan.format, ", expected 1");
  KVC_CHECK(fs::path(plan.folder).is_absolute(), where, "folder is '", plan.folder, "', expected an absolute path");
  for (const auto& cell : plan.cells) {
    KVC_CHECK(cell.experiment < plan.experiments.size(), where, "cell ", cell.key, " is of experiment ",
              cell.experiment, ", expected below ", plan.experiments.size());
  }
  std::vector<int> uses(plan.cells.size());
  for (size_t shard = 0; shard < plan.shards.size(); ++shard) {
    for (const size_t cell : plan.shards[shard]) {
      KVC_CHECK(cell < uses.size(), where, "shard ", shard, " names cell ", cell, ", expected below ", uses.size());
      KVC_CHECK(++uses[cell] == 1, where, "cell ", cell, " is in two shards, expected one");
    }
  }
}

}  // namespace

fs::path Plan::database_of(size_t shard) const { return fs::path(folder) / concat("shard-", shard, ".sqlite"); }
fs::path Plan::state_of(size_t shard) const { return fs::path(folder) / concat("shard-", shard, ".json"); }
fs::path Plan::log_of(size_t shard) const { return fs::path(folder) / "logs" / concat("shard-", shard, ".log"); }

Plan load_plan(const fs::path& path) {
  const auto text = read_file(path);
  const auto where = concat("plan '", path.string(), "': error: ");
  check_json_depth(text, path.string());
  try {
    const auto plan = nlohmann::json::parse(text).get<Plan>();
    check_plan(plan, where);
    return plan;
  } catch (const nlohmann::json::exception& e) {
    throw Error(concat(where, "expected what `kvc plan` writes: ", one_line(e.what())));
  }
}

void write_plan(const Plan& plan, const fs::path& path) { write_file(path, nlohmann::json(plan).dump(1) + "\n"); }

}  // namespace kvc
