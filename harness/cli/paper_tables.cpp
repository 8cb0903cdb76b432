#include "cli/paper_tables.h"

#include <algorithm>

#include "cli/table_fills.h"
#include "kvc/check.h"
#include "store/printed_table.h"
#include "tables/entries.h"
#include "tables/paper_table.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

std::string text_of(const Table& table, const std::string& format) {
  return format == "csv" ? write_csv(table) : format == "json" ? write_json(table) : write_markdown(table);
}

std::string text_of(const PaperTable& table, const PaperTableArguments& arguments) {
  if (arguments.format == "latex") return write_latex(table, arguments.standalone);
  if (arguments.format == "html") return write_html(table, arguments.standalone);
  if (arguments.format == "csv") return write_csv(table);
  return arguments.format == "json" ? write_json(table) : write_markdown(table);
}

fs::path tables_folder(const Paths& paths) { return paths.root / "results/tables"; }

std::vector<std::string> experiments_of(const std::vector<TableFill>& fills) {
  std::vector<std::string> names;
  for (const auto& fill : fills) {
    if (fill.error.empty()) names.push_back(fill.experiment);
  }
  return names;
}

bool has_cells(Database& db, const std::string& experiment) {
  return db.prepare("SELECT 1 FROM entry WHERE experiment = ?").bind(1, experiment).step();
}

// What is missing of the experiments that were begun; where none was, of those that can run here.
void note_missing(Database& db, const TableLayout& layout, const std::vector<TableFill>& fills, PaperTable& table) {
  const bool any = std::any_of(fills.begin(), fills.end(), [&](const auto& f) { return has_cells(db, f.experiment); });
  for (const auto& fill : fills) {
    if (!fill.error.empty()) {
      table.notes.push_back(fill.error);
      continue;
    }
    if (any ? !has_cells(db, fill.experiment) : !fill.can_run) continue;
    const auto state = fill_state(db, fill, layout.command);
    if (state.command.empty()) continue;
    table.notes.push_back(concat("missing: ", state.n_expected - state.n_there, " of ", state.n_expected, " cells of ",
                                 fill.experiment, "; ", state.command));
  }
  if (fills.empty()) table.notes.push_back("no file of configs/papers fills this table");
  if (!layout.not_here.empty()) table.notes.push_back("the embedded model cannot fill: " + layout.not_here);
}

}  // namespace

std::string print_paper_table(const PaperTableArguments& arguments) {
  const auto paths = find_paths();
  const auto layout = find_layout(tables_folder(paths), arguments.name);
  const auto fills = find_fills(layout.fills, paths);
  auto store = ResultStore::open_readonly(arguments.database);
  auto& db = store.database();
  const auto experiments =
      arguments.experiment == "all" ? experiments_of(fills) : std::vector<std::string>{arguments.experiment};
  const auto cell_notes = make_entries(db, experiments, arguments.with_suspects);
  auto table = make_paper_table(db, layout);
  if (arguments.trace) return text_of(trace_table(db, table), arguments.format);
  rank_cells(table, layout);
  check_baseline(table, layout);
  if (arguments.with_external) add_printed(table, layout);
  table.notes.insert(table.notes.end(), cell_notes.begin(), cell_notes.end());
  if (arguments.experiment == "all") note_missing(db, layout, fills, table);
  return text_of(table, arguments);
}

std::string list_paper_tables(const std::string& database, const std::string& format, bool all) {
  const auto paths = find_paths();
  std::optional<ResultStore> store;
  if (!database.empty()) store = ResultStore::open_readonly(database);
  Table list;
  list.columns = {{"table"}, {"title"}, {"filled by"}, {"cells there"}, {"to fill it, or why not"}};
  list.columns[3].align = TableColumn::Align::kRight;
  for (const auto& name : layout_names(tables_folder(paths))) {
    const auto layout = find_layout(tables_folder(paths), name);
    const auto fills = find_fills(layout.fills, paths);
    if (store) make_entries(store->database(), experiments_of(fills), true);
    const size_t n_before = list.rows.size();
    for (const auto& fill : fills) {
      const bool begun = store && fill.error.empty() && has_cells(store->database(), fill.experiment);
      if (!all && !begun && !fill.can_run && fill.error.empty()) continue;
      FillState state{static_cast<int64_t>(fill.cells.size()), 0, concat("./kvc run ", fill.file)};
      if (store && fill.error.empty()) state = fill_state(store->database(), fill, layout.command);
      list.rows.push_back({name, layout.title, fill.file, concat(state.n_there, " of ", state.n_expected),
                           fill.error.empty() ? state.command : fill.error});
    }
    if (list.rows.size() == n_before) {
      list.rows.push_back(
          {name, layout.title, std::string(), std::string("none"),
           layout.not_here.empty() ? std::string("no experiment of configs/papers/demo") : layout.not_here});
    }
  }
  return text_of(list, format);
}

std::string check_printed_tables(const std::string& name, const std::string& format) {
  const auto paths = find_paths();
  std::vector<fs::path> files;
  if (name.empty()) {
    for (const auto& file : fs::directory_iterator(paths.root / "results/external")) {
      if (file.path().extension() == ".yaml") files.push_back(file.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    const auto layout = find_layout(tables_folder(paths), name);
    KVC_CHECK(!layout.printed_file.empty(), "table ", name, ": no printed figures are entered for it");
    files.push_back(layout.printed_file);
  }
  std::vector<PrintedTable> tables;
  for (const auto& file : files) tables.push_back(load_printed_table(file));
  return text_of(findings_table(tables), format);
}

}  // namespace kvc
