#include "cli/table_fills.h"

#include <algorithm>
#include <set>

#include "kvc/check.h"
#include "run/experiment.h"
#include "run/grid.h"
#include "text/nearest.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& stem, const Paths& paths) {
  std::vector<std::string> files;
  for (const std::string folder : {"configs/papers", "configs/papers/demo"}) {
    if (!fs::is_directory(paths.root / folder)) continue;
    for (const auto& file : fs::directory_iterator(paths.root / folder)) {
      const auto name = file.path().stem().string();
      const bool fits = file.path().extension() == ".yaml" && (name == stem || name.starts_with(stem + "_"));
      if (fits) files.push_back(folder + "/" + file.path().filename().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void read_fill(TableFill& fill, const Paths& paths) {
  const auto experiment = load_experiment(paths.root / fill.file, {});
  fill.experiment = experiment.name;
  fill.can_run = fs::is_directory(below_root(paths, experiment.model));
  fill.limit = experiment.limit;
  std::vector<std::string> tasks;
  const bool has_tasks = experiment.kind == "eval" || experiment.kind == "probe";
  for (const auto& name : experiment.tasks) {
    if (!has_tasks) continue;
    for (const auto& id : tasks_of(name, paths)) tasks.push_back(id.name());
  }
  if (!has_tasks) tasks.push_back("");
  for (size_t c = 0; c < experiment.compressors.size(); ++c) {
    for (const auto& task : tasks) {
      fill.cells.push_back({experiment.compressors[c].label, static_cast<int64_t>(c), task});
    }
  }
}

// "--limit 20" where the cells that are there were run with fewer samples than the file asks for.
std::string limit_flag(Database& db, const TableFill& fill) {
  auto select =
      db.prepare("SELECT min(n_samples), max(n_samples) FROM entry WHERE experiment = ? AND kind IN ('eval', 'probe')");
  if (!select.bind(1, fill.experiment).step() || select.is_null(0)) return "";
  const auto n = select.integer(0);
  return n == select.integer(1) && n < fill.limit.value_or(n) ? concat(" --limit ", n) : "";
}

// "--set tasks=[a,b]" where whole tasks are there already.
std::string task_flag(const TableFill& fill, const std::set<std::string>& missing) {
  std::set<std::string> all;
  for (const auto& cell : fill.cells) all.insert(cell.task);
  if (missing.size() == all.size()) return "";
  return concat(" --set 'tasks=[", join({missing.begin(), missing.end()}), "]'");
}

}  // namespace

std::vector<TableFill> find_fills(const std::vector<std::string>& stems, const Paths& paths) {
  std::vector<TableFill> fills;
  for (const auto& stem : stems) {
    for (const auto& file : files_of(stem, paths)) {
      fills.push_back({.file = file});
      try {
        read_fill(fills.back(), paths);
      } catch (const Error& e) {
        fills.back().error = e.what();
      }
    }
  }
  return fills;
}

FillState fill_state(Database& db, const TableFill& fill, const std::string& layout_command) {
  FillState state{static_cast<int64_t>(fill.cells.size()), 0, ""};
  auto there = db.prepare(
      "SELECT 1 FROM entry WHERE experiment = ?1 AND (label = ?2 OR (?2 = '' AND position = ?3)) AND (task = ?4 OR ?4 "
      "= '')"
      " AND (kind <> 'eval' OR (n_ok > 0 AND n_ok + n_failed >= n_samples))");
  std::set<std::string> missing;
  for (const auto& cell : fill.cells) {
    there.reset();
    const bool found =
        there.bind(1, fill.experiment).bind(2, cell.label).bind(3, cell.position).bind(4, cell.task).step();
    state.n_there += found;
    if (!found) missing.insert(cell.task);
  }
  if (missing.empty()) return state;
  const auto verb = layout_command.empty() ? "run FILE" : layout_command;
  state.command = concat("./kvc ", verb, " --db ", db.path(), limit_flag(db, fill), task_flag(fill, missing));
  if (const auto at = state.command.find("FILE"); at != std::string::npos) state.command.replace(at, 4, fill.file);
  return state;
}

}  // namespace kvc
