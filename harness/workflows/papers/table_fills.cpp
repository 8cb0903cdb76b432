#include "papers/table_fills.h"

#include <algorithm>
#include <set>

#include "experiment/experiment.h"
#include "experiment/grid.h"
#include "experiment/read_compressors.h"
#include "experiment/task_names.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& stem, const Paths& paths) {
  auto files = files_beside("configs/papers/" + stem + ".yaml", paths);
  for (auto& file : files_beside("configs/papers/demo/" + stem + ".yaml", paths)) files.push_back(std::move(file));
  return files;
}

std::string name_in(YamlMap& map, const std::string& file) {
  return map.optional_string("name", fs::path(file).stem().string());
}

// Whether the checkpoint that the file names is here; a bench of single layers needs none.
bool has_model(YamlMap& map, RunKind kind, const Paths& paths) {
  auto model = map.optional_string("model", "");
  if (const auto subject = map.optional(to_string(kind)); subject && subject->is_map()) {
    auto inner = subject->map();
    model = inner.optional_string("model", inner.optional_string("config", model));
  }
  return model.empty() || fs::exists(below_root(paths, model));
}

// Only what says which cells the file makes, whatever its kind; the run itself reads all of it.
void read_fill(TableFill& fill, const Paths& paths) {
  auto map = load_experiment_yaml(paths.root / fill.file, {});
  fill.experiment = name_in(map, fill.file);
  const auto kind = experiment_kind(map);
  fill.can_run = has_model(map, kind, paths);
  if (const auto limit = map.optional("limit")) fill.limit = limit->integer(1);
  fill.is_search = kind == RunKind::search;
  if (fill.is_search) return;
  std::vector<std::string> tasks;
  for (const auto& name : map.optional_strings("tasks")) {
    for (const auto& id : tasks_of(name, paths)) tasks.push_back(id.name());
  }
  if (is_timed(kind)) tasks = {""};
  std::vector<CompressorChoice> compressors;
  for (const auto& entry : map.required("compressors").sequence()) {
    for (auto& choice : read_compressor(entry)) compressors.push_back(std::move(choice));
  }
  for (size_t c = 0; c < compressors.size(); ++c) {
    for (const auto& task : tasks) fill.cells.push_back({compressors[c].label, static_cast<int64_t>(c), task});
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

std::vector<std::string> files_beside(const std::string& file, const Paths& paths) {
  const auto folder = fs::path(file).parent_path();
  const auto stem = fs::path(file).stem().string();
  std::vector<std::string> files;
  if (!fs::is_directory(paths.root / folder)) return files;
  for (const auto& entry : fs::directory_iterator(paths.root / folder)) {
    const auto name = entry.path().stem().string();
    const bool fits = entry.path().extension() == ".yaml" && (name == stem || name.starts_with(stem + "_"));
    if (fits) files.push_back((folder / entry.path().filename()).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<TableFill> find_fills(const std::vector<std::string>& stems, const Paths& paths) {
  std::vector<TableFill> fills;
  for (const auto& stem : stems) {
    for (const auto& file : files_of(stem, paths)) {
      if (std::any_of(fills.begin(), fills.end(), [&](const auto& fill) { return fill.file == file; })) continue;
      fills.emplace_back().file = file;
      try {
        read_fill(fills.back(), paths);
      } catch (const Error& e) {
        fills.back().error = e.what();
      }
    }
  }
  return fills;
}

std::vector<std::string> names_of_fills(const std::vector<std::string>& stems, const Paths& paths) {
  std::vector<std::string> names;
  for (const auto& stem : stems) {
    for (const auto& file : files_of(stem, paths)) {
      try {
        auto map = load_experiment_yaml(paths.root / file, {});
        names.push_back(name_in(map, file));
      } catch (const Error&) {  // it fills nothing
      }
    }
  }
  return names;
}

FillState fill_state(Database& db, const TableFill& fill) {
  FillState state{fill.n_expected(), 0, ""};
  if (fill.is_search) {
    state.n_there = db.prepare("SELECT 1 FROM search WHERE experiment = ?").bind(1, fill.experiment).step();
  }
  auto there = db.prepare(
      "SELECT 1 FROM entry WHERE experiment = ?1 AND (label = ?2 OR (?2 = '' AND position = ?3))"
      " AND (task = ?4 OR ?4 = '') AND CASE kind WHEN 'eval' THEN n_ok > 0 AND n_ok + n_failed >= n_samples"
      " WHEN 'probe' THEN n_failed = 0 AND key IN (SELECT cell_key FROM probe) WHEN 'bench' THEN key IN (SELECT "
      "cell_key FROM timing)"
      " ELSE key IN (SELECT cell_key FROM capacity) END");
  std::set<std::string> missing;
  for (const auto& cell : fill.cells) {
    there.reset();
    there.bind(1, fill.experiment).bind(2, cell.label).bind(3, cell.position).bind(4, cell.task);
    const bool found = there.step();
    state.n_there += found;
    if (!found) missing.insert(cell.task);
  }
  if (state.n_there == state.n_expected) return state;
  state.command = concat("./kvc run ", fill.file, " --db ", db.path());
  if (!fill.is_search) state.command += limit_flag(db, fill) + task_flag(fill, missing);
  return state;
}

}  // namespace kvc
