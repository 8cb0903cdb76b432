#include "papers/paper_tables.h"

#include <algorithm>

#include "analysis/answer_notes.h"
#include "analysis/entries.h"
#include "kvc/check.h"
#include "papers/table_fills.h"
#include "tables/paper_table.h"
#include "tables/printed_table.h"
#include "text/files.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

std::string text_of(const Table& table, const std::string& format) {
  KVC_CHECK(format != "latex" && format != "html", "--format is ", format, ", expected markdown, csv or json here");
  return write_table(table, format);
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

std::set<std::string> evaluated_cells(Database& db) {
  std::set<std::string> keys;
  auto select = db.prepare("SELECT key FROM entry WHERE kind = 'eval'");
  while (select.step()) keys.insert(select.text(0));
  return keys;
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
    const auto state = fill_state(db, fill);
    if (state.command.empty()) continue;
    table.notes.push_back(concat("missing: ", state.n_expected - state.n_there, " of ", state.n_expected, " cells of ",
                                 fill.experiment, "; ", state.command));
  }
  if (fills.empty()) table.notes.push_back("no experiment in configs/papers produces this table");
}

// Of a table of any experiment.
void note_unfinished(Database& db, PaperTable& table) {
  auto select = db.prepare(
      "SELECT DISTINCT label, task, n_samples - n_ok - n_failed, n_samples FROM entry"
      " WHERE kind = 'eval' AND n_ok + n_failed < n_samples ORDER BY position, task");
  while (select.step()) {
    table.notes.push_back(concat("not finished: ", select.text(0), " on ", select.text(1), ": ", select.integer(2),
                                 " of ", select.integer(3), " missing"));
  }
}

// A table or a figure, as `kvc tables` shows it.
struct Listed {
  std::string name, title;
  std::vector<std::string> fills;
};

// The figures of results/figures: their files say which experiments fill them.
std::vector<Listed> find_figures(const Paths& paths) {
  const auto folder = paths.root / "results/figures";
  std::vector<Listed> figures;
  if (!fs::is_directory(folder)) return figures;
  for (const auto& name : layout_names(folder)) {
    const auto colon = name.find(':');
    auto map = load_yaml(folder / name.substr(0, colon) / (name.substr(colon + 1) + ".yaml")).map();
    Listed figure{"figure " + name, map.required_string("title"), {}};
    for (const auto& file : map.optional_strings("fills")) {
      const auto stem = fs::path(file).stem().string();
      if (std::find(figure.fills.begin(), figure.fills.end(), stem) == figure.fills.end()) figure.fills.push_back(stem);
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

// One row an experiment that fills it: those whose model is here, those begun in the database, or all.
void add_listed(const Listed& listed, const Paths& paths, bool all, Database* db, Table& list) {
  const auto fills = find_fills(listed.fills, paths);
  if (db) make_entries(*db, experiments_of(fills), true);
  const size_t n_before = list.rows.size();
  for (const auto& fill : fills) {
    const bool begun = db && fill.error.empty() && has_cells(*db, fill.experiment);
    if (!all && !begun && !fill.can_run && fill.error.empty()) continue;
    FillState state{fill.n_expected(), 0, concat("./kvc run ", fill.file)};
    if (db && fill.error.empty()) state = fill_state(*db, fill);
    list.rows.push_back({listed.name, listed.title, fill.file, concat(state.n_there, " of ", state.n_expected),
                         fill.error.empty() ? state.command : fill.error});
  }
  if (list.rows.size() > n_before) return;
  list.rows.push_back({listed.name, listed.title, std::string(), std::string("none"),
                       std::string("no experiment in configs/papers/demo")});
}

// Of the entries that were made, with what was said of them.
std::string print(Database& db, const TableLayout& layout, const std::vector<TableFill>& fills,
                  const std::vector<std::string>& cell_notes, const PaperTableArguments& arguments) {
  auto table = make_paper_table(db, layout);
  if (arguments.trace) return text_of(trace_table(db, table), arguments.format);
  rank_cells(db, table, layout);
  keep_comparable_ranks(db, table);
  check_baseline(table, layout);
  if (arguments.with_external) add_printed(table, layout);
  table.notes.insert(table.notes.end(), cell_notes.begin(), cell_notes.end());
  for (auto& note : answer_notes(db, evaluated_cells(db))) table.notes.push_back(std::move(note));
  if (layout.is_own) {
    note_unfinished(db, table);
  } else if (arguments.experiment == "all") {
    note_missing(db, layout, fills, table);
  }
  if (!arguments.title.empty()) table.title = arguments.title;
  choose_columns(table, arguments.shown);
  return write_table(table, arguments.format, arguments.standalone);
}

CannedQuery query_of(Database& db, const TableLayout& layout, const std::vector<std::string>& experiments,
                     const std::string& name) {
  try {
    make_entries(db, experiments, false);
    const auto table = make_paper_table(db, layout);
    return {name, layout.title, write_sql(db, table, layout, experiments),
            table.columns.empty() ? "None of its cells were stored when this server started: long rows."
                                  : "Columns are those that the database had when this server started."};
  } catch (const Error& e) {
    return {name, layout.title, with_entries(read_file(layout.sql_file), experiments), concat("Long rows: ", e.what())};
  }
}

}  // namespace

std::vector<std::string> own_tables() { return own_layout_names(tables_folder(find_paths())); }

std::string print_paper_table(const PaperTableArguments& arguments) {
  const auto paths = find_paths();
  const auto layout = find_layout(tables_folder(paths), arguments.name);
  auto store = ResultStore::open_readonly(arguments.database);
  const auto fills = find_fills(layout.fills, paths);
  const bool all = arguments.experiment == "all";
  if (layout.is_own && !all) check_stored_experiment(store.database(), arguments.experiment);
  const auto experiments = !all            ? std::vector<std::string>{arguments.experiment}
                           : layout.is_own ? stored_experiments(store.database())
                                           : experiments_of(fills);
  const auto cell_notes = make_entries(store.database(), experiments, arguments.with_suspects);
  return print(store.database(), layout, fills, cell_notes, arguments);
}

std::vector<CannedQuery> queries_of_papers(Database& db) {
  const auto paths = find_paths();
  std::vector<CannedQuery> queries;
  for (const auto& name : layout_names(tables_folder(paths))) {
    const auto layout = find_layout(tables_folder(paths), name);
    auto query_name = name;
    std::replace(query_name.begin(), query_name.end(), ':', '_');
    queries.push_back(query_of(db, layout, experiments_of(find_fills(layout.fills, paths)), query_name));
  }
  return queries;
}

std::string html_of_filled_tables(const std::string& database, bool with_suspects) {
  const auto paths = find_paths();
  auto store = ResultStore::open_readonly(database);
  const auto stored = stored_experiments(store.database());
  const auto is_stored = [&](const auto& experiment) { return std::ranges::count(stored, experiment) > 0; };
  std::string html;
  for (const auto& name : layout_names(tables_folder(paths))) {
    const auto layout = find_layout(tables_folder(paths), name);
    if (std::ranges::none_of(names_of_fills(layout.fills, paths), is_stored)) continue;
    const auto fills = find_fills(layout.fills, paths);
    const auto experiments = experiments_of(fills);
    const auto cell_notes = make_entries(store.database(), experiments, with_suspects);
    const auto is_there = [&](const auto& experiment) { return has_cells(store.database(), experiment); };
    if (std::ranges::none_of(experiments, is_there)) continue;  // all of them suspect
    html += print(store.database(), layout, fills, cell_notes,
                  {.database = database, .name = name, .format = "html", .with_suspects = with_suspects});
  }
  return html;
}

Table list_paper_tables(const std::string& database, bool all) {
  const auto paths = find_paths();
  std::optional<ResultStore> store;
  if (!database.empty()) store = ResultStore::open_readonly(database);
  Table list;
  list.columns = {{"table"}, {"title"}, {"experiment"}, {"cells done"}, {"command, or why not"}};
  list.columns[3].align = TableColumn::Align::kRight;
  for (const size_t i : {3, 4}) list.columns[i].rank = TableColumn::Rank::kMain;
  for (const auto& name : layout_names(tables_folder(paths))) {
    const auto layout = find_layout(tables_folder(paths), name);
    add_listed({name, layout.title, layout.fills}, paths, all, store ? &store->database() : nullptr, list);
  }
  for (const auto& figure : find_figures(paths)) {
    add_listed(figure, paths, all, store ? &store->database() : nullptr, list);
  }
  return list;
}

std::string check_printed_tables(const std::vector<std::string>& names, const std::string& format) {
  const auto paths = find_paths();
  std::vector<fs::path> files;
  if (names.empty()) {
    for (const auto& file : fs::directory_iterator(paths.root / "results/external")) {
      if (file.path().extension() == ".yaml") files.push_back(file.path());
    }
    std::sort(files.begin(), files.end());
  }
  for (const auto& name : names) {
    if (name.ends_with(".yaml") || name.ends_with(".yml")) {
      files.emplace_back(name);
      continue;
    }
    const auto layout = find_layout(tables_folder(paths), name);
    KVC_CHECK(!layout.printed_file.empty(), "table ", name, ": its published values are not on file");
    files.push_back(layout.printed_file);
  }
  std::vector<PrintedTable> tables;
  for (const auto& file : files) tables.push_back(load_printed_table(file));
  return text_of(findings_table(tables), format);
}

}  // namespace kvc
