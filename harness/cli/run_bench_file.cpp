#include "cli/run_bench_file.h"

#include <cstdio>

#include "analysis/query.h"
#include "cli/model_path.h"
#include "cli/open_store.h"
#include "cli/verbs.h"
#include "render/table.h"
#include "run/run_bench.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

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
}

}  // namespace

int run_bench_file(const Paths& paths, const std::string& file, const std::vector<std::string>& settings,
                   const std::string& database, bool dry_run) {
  auto experiment = load_bench(below_root(paths, file), settings);
  if (dry_run && tell_missing_model(experiment.name, experiment.subject.model)) return kOk;
  place_model(experiment);
  const auto cells = expand_bench(experiment, paths);
  const fs::path path = database_of(database, experiment.database, experiment.name);
  if (dry_run) {
    print_bench_plan(experiment, cells, path);
    return kOk;
  }
  auto store = open_store(path);
  const auto outcome = run_bench(experiment, cells, store);
  std::fprintf(stderr, "%ld %s run now (%ld failed), %ld were there; database %s\n", outcome.n_run,
               experiment.kind == RunKind::bench ? "points" : "searches", outcome.n_failed, outcome.n_present,
               path.c_str());
  if (outcome.signal) return report_interrupt(outcome.signal, path);
  std::fputs(write_markdown(named_table(store.database(), to_string(experiment.kind), experiment.name)).c_str(),
             stdout);
  return outcome.n_failed > 0 ? kSomeFailed : kOk;
}

}  // namespace kvc
