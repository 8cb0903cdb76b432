#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "analysis/entries.h"
#include "analysis/query.h"
#include "cli/verbs.h"
#include "experiment/paths.h"
#include "kvc/check.h"
#include "render/terminal.h"
#include "store/result_store.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

struct ListArguments {
  std::vector<std::string> databases;
  std::string format = "markdown";
  bool wide = false;
};

// Those of results/, by name.
std::vector<std::string> databases_here() {
  std::vector<std::string> files;
  const fs::path folder = "results";
  if (!fs::is_directory(folder)) return files;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".sqlite") files.push_back(file.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int list_experiments(const ListArguments& arguments) {
  const bool asked = !arguments.databases.empty();
  const auto files = asked ? arguments.databases : databases_here();
  KVC_CHECK(!files.empty(), "ls: no database in results/; expected one: kvc ls FILE.sqlite");
  Table all;
  for (const auto& file : files) {
    try {
      auto store = ResultStore::open_readonly(file);
      auto table = named_table(store.database(), "experiments", "all");
      if (all.columns.empty()) all.columns = table.columns;
      for (size_t i = 0; i < table.columns.size(); ++i) {
        if (table.columns[i].align == TableColumn::Align::kRight) all.columns[i].align = TableColumn::Align::kRight;
      }
      for (auto& row : table.rows) {
        row.insert(row.begin(), file);
        all.rows.push_back(std::move(row));
      }
    } catch (const Error& e) {
      if (asked) throw;
      all.notes.push_back(e.what());
    }
  }
  all.columns.insert(all.columns.begin(), TableColumn{"database"});
  std::fputs(write_shown(all, arguments.format, arguments.wide).c_str(), stdout);
  return kOk;
}

struct RemoveArguments {
  std::string database, experiment;
  bool yes = false;
};

constexpr const char* kItsAlone =
    "SELECT cell_key FROM experiment_cell WHERE experiment = ?1 AND cell_key NOT IN"
    " (SELECT cell_key FROM experiment_cell WHERE experiment <> ?1)";

int64_t count_of(Database& db, const std::string& sql, const std::string& experiment) {
  auto select = db.prepare(sql);
  return select.bind(1, experiment).step() ? select.integer(0) : 0;
}

int remove_experiment(const RemoveArguments& arguments) {
  KVC_CHECK(fs::exists(arguments.database), "results database '", arguments.database, "': no such file");
  auto store = ResultStore::open(arguments.database);
  auto& db = store.database();
  check_stored_experiment(db, arguments.experiment);
  const auto alone = std::string("(") + kItsAlone + ")";
  const auto n_cells = count_of(db, "SELECT count(*) FROM cell WHERE key IN " + alone, arguments.experiment);
  const auto n_samples = count_of(db, "SELECT count(*) FROM sample WHERE cell_key IN " + alone, arguments.experiment);
  const auto n_shared =
      count_of(db, "SELECT count(*) FROM experiment_cell WHERE experiment = ?1", arguments.experiment) - n_cells;
  std::printf("%s: %ld cells with %ld samples are its alone, %ld cells are other experiments', too\n",
              arguments.experiment.c_str(), n_cells, n_samples, n_shared);
  if (!arguments.yes) {
    std::printf("nothing was removed; say --yes to remove it\n");
    return kOk;
  }
  Transaction transaction(db);
  db.prepare("DELETE FROM cell WHERE key IN " + alone).bind(1, arguments.experiment).run();
  db.prepare("DELETE FROM experiment_cell WHERE experiment = ?1").bind(1, arguments.experiment).run();
  transaction.commit();
  std::printf("removed\n");
  return kOk;
}

}  // namespace

void add_list_verbs(Verb program) {
  auto arguments = std::make_shared<ListArguments>();
  auto verb = program.add_subcommand(
      "ls", "Lists the experiments in databases, with counts of cells and of done, failed and missing samples");
  verb.add_option("databases,--db", arguments->databases, "results databases (default: those of results/)");
  verb.add_option("--format", arguments->format, "markdown, csv or json")
      .choices({"markdown", "csv", "json"})
      .show_default();
  add_wide(verb, arguments->wide);
  verb.on_call([arguments] { return list_experiments(*arguments); });

  auto removed = std::make_shared<RemoveArguments>();
  auto rm = program.add_subcommand(
      "rm", "Removes an experiment from a database, with the cells that no other experiment uses");
  rm.add_option("experiment", removed->experiment, "the experiment's name").required();
  rm.add_option("--db", removed->database, "results database").required();
  rm.add_flag("--yes", removed->yes, "remove; without it, only show what would be removed");
  rm.on_call([removed] { return remove_experiment(*removed); });
}

}  // namespace kvc
