#include <sqlite3.h>

#include "../store/store/store_fixture.h"
#include "analysis/compare.h"
#include "analysis/group_table.h"
#include "analysis/likelihood_table.h"
#include "analysis/query.h"
#include "papers/paper_tables.h"
#include "report/report.h"
#include "serve/current_database.h"
#include "store/bench_store.h"
#include "store/search_store.h"
#include "target.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
using namespace kvc;
namespace fs = std::filesystem;

std::string base;                                          // a database's bytes
std::vector<std::pair<std::string, std::string>> columns;  // of its tables
uint64_t look = 0;                                         // which of the looks the case takes

void fill(ResultStore& store) {
  for (const char* plugin : {"full", "kivi", "gear"}) {
    for (const char* task : {"demo/lookup", "likelihood/text"}) {
      auto cell = make_cell(concat(plugin, "aaaaaaaaaaaaaaaaaaaaaaaa", task), plugin, task);
      cell.lossy = std::string(plugin) != "full";
      cell.bits = cell.lossy ? 2 : 16;
      cell.options_json = R"({"bits":2})";
      cell.task_json = R"({"likelihood":{"prompt_tokens":128,"block":64,"reference":{"plugin":"full"}}})";
      cell.scoring_json = R"({"metric":"accuracy","extractors":[{"name":"first"}]})";
      store.put_cell(cell);
      for (int64_t i = 0; i < 3; ++i) {
        auto sample = make_sample(cell.key, i, i == 1 ? 0 : 1);
        if (std::string(task) != "demo/lookup") sample.likelihood = {{128, 64, 64, 1, 60}, {256, 64, 6.4, 0, 64}};
        store.put_sample(sample);
      }
      store.put_sizes(cell.key, {{4096, "", 100, 1000, 10, 0, 500}, {32768, "too long", {}, {}, {}, {}, {}}});
    }
  }
  auto cell = make_cell("probe-cell", "kivi", "demo/lookup");
  cell.kind = RunKind::probe;
  store.put_cell(cell);
  store.put_probe(cell.key, 0, {{"rel_fro", 0, -1, "k", -1, 0.5}, {"kl", -1, -1, "", 3, 0.1}});
  cell = make_cell("bench-cell", "kivi", "layer 4/2/64");
  cell.kind = RunKind::bench;
  store.put_cell(cell);
  BenchStore(store).put_repeats(cell.key, {},
                                {{{{"prefill", "all", 1}, {"total", "all", 2}}, {{"weights", 1000}, {"peak", 6000}}}});
  store.database().execute(
      "INSERT INTO external_result VALUES ('lm-eval', 'r.json', 'm', 'hf', 'a=1', 'acc', 0.5, '', 'stderr 1')");
}

// The same tables, but their columns take values of every type.
void loosen(Database& db) {
  db.execute("PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')')");
  db.execute("PRAGMA writable_schema = RESET");
}

void prepare_database(const fs::path& dir) {
  const auto path = dir / "base.sqlite";
  {
    auto store = ResultStore::open(path);
    fill(store);
    auto& db = store.database();
    db.execute("PRAGMA journal_mode = DELETE");
    auto names = db.prepare(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY 1, 2");
    while (names.step()) columns.push_back({names.text(0), names.text(1)});
    loosen(db);
  }
  base = read_file(path);
}

std::string literal(Mutator& mutator, const std::string& old) {
  const auto quoted = [](std::string text) {
    text.resize(std::min<size_t>(text.size(), 200'000));
    std::string hex = "CAST(x'";
    for (const unsigned char c : text) {
      char two[3];
      std::snprintf(two, sizeof two, "%02x", c);
      hex += two;
    }
    return hex + "' AS TEXT)";
  };
  switch (mutator.below(6)) {
    case 0:
      return "NULL";
    case 1:
      return mutator.one_in(2) ? "9e999" : "x'00ff'";
    case 2:
    case 3: {
      const auto number = mutator.number().dump();
      return number.find("e+3") != number.npos ? "-1e308" : number;
    }
    case 4:
      return quoted(mutator.word());
    default:
      return quoted(mutator.mutate({json(old)}));
  }
}

// Another value in a column, where one of its rows has it.
void put_values(const fs::path& path, Mutator& mutator) {
  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  sqlite3_exec(db, "PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", nullptr,
               nullptr, nullptr);
  for (uint64_t n = 1 + mutator.below(4); n > 0; --n) {
    const auto& [table, column] = columns[mutator.below(columns.size())];
    const auto row = concat("(SELECT ", column, " FROM ", table, " LIMIT 1 OFFSET ", mutator.below(4), ")");
    sqlite3_stmt* old = nullptr;
    sqlite3_prepare_v2(db, ("SELECT " + row).c_str(), -1, &old, nullptr);
    std::string text;
    if (sqlite3_step(old) == SQLITE_ROW && sqlite3_column_bytes(old, 0) > 0) {
      text.assign(static_cast<const char*>(sqlite3_column_blob(old, 0)),
                  static_cast<size_t>(sqlite3_column_bytes(old, 0)));
    }
    sqlite3_finalize(old);
    const auto set = concat("UPDATE OR IGNORE ", table, " SET ", column, " = ", literal(mutator, text),
                            mutator.one_in(2) ? concat(" WHERE ", column, " IS ", row) : "");
    sqlite3_exec(db, set.c_str(), nullptr, nullptr, nullptr);
  }
  sqlite3_close(db);
}

void write_database(const fs::path& dir, std::string, Mutator& mutator) {
  const auto path = dir / "x.sqlite";
  look = mutator.below(1000);
  for (const char* rest : {"-wal", "-shm", "-journal"}) fs::remove(path.string() + rest);
  if (!mutator.one_in(3)) {
    write_file(path, base);
    return put_values(path, mutator);
  }
  auto bytes = base;
  for (uint64_t n = 1 + mutator.below(8); n > 0; --n) {
    auto& byte = bytes[mutator.one_in(4) ? mutator.below(200) : mutator.below(bytes.size())];
    byte = static_cast<char>(mutator.one_in(2) ? mutator.below(256) : byte ^ (1 << mutator.below(8)));
  }
  if (mutator.one_in(10)) bytes.resize(mutator.below(bytes.size()));
  write_file(path, bytes);
}

void show_database(const fs::path& dir) {
  const auto path = dir / "x.sqlite";
  static const auto groups = task_groups(fs::path(KVC_SOURCE_DIR) / "tasks");
  static const auto tables = table_names();
  const bool with_suspects = look % 2 == 0;
  auto store = ResultStore::open_readonly(path);
  auto& db = store.database();
  const SummaryOptions options{.experiment = "all", .with_suspects = with_suspects};
  const auto show = [](const Table& table) {
    for (const char* format : {"markdown", "csv", "json"}) {
      promise(is_utf8(write_table(table, format)), "a table is not UTF-8");
    }
  };
  if (look < 300) {
    TemporaryFolder folder;
    auto current = ResultStore::open_readonly(current_database(path, folder));
    ReportOptions of_report;
    of_report.with_suspects = with_suspects;
    const auto page = make_report(current.database(), of_report).html;
    promise(is_utf8(page), "a page is not UTF-8");
  } else if (look < 550) {
    show(summary_table(db, options));
  } else if (look < 600) {
    show(group_table(db, options, groups));
  } else if (look < 700) {
    show(likelihood_table(db, {"all", with_suspects}));
  } else if (look < 800) {
    CompareOptions of_compare;
    of_compare.a = "full";
    of_compare.filter.with_suspects = with_suspects;
    show(compare_table(compare_groups(db, db, of_compare)));
  } else if (look < 990) {
    show(named_table(db, tables[look % tables.size()], "all"));
  } else {
    html_of_filled_tables(path.string(), with_suspects);
  }
}

void read_database(const fs::path& dir) {
  try {
    show_database(dir);
  } catch (const Error& error) {  // who asks names the database himself
    throw Error(concat(dir.string(), ": ", error.what()));
  }
}

}  // namespace

Target database_target() {
  return {"database",
          1,
          {"-"},
          {"full",
           "kivi",
           "demo/lookup",
           "ok",
           "failed",
           "eval",
           "bench",
           "capacity",
           "trial",
           "all",
           "first",
           "{",
           "{}",
           "[]",
           "[7,8]",
           "[7,9,\"x\"]",
           "{\"metric\":1}",
           "{\"likelihood\":{\"block\":0}}",
           "\xff\xfe",
           "\x1b[31m",
           "</script><b>",
           "=1+1",
           "9999999999999999999",
           "k",
           "v",
           "shared",
           "codes"},
          prepare_database,
          write_database,
          read_database};
}

}  // namespace kvc_fuzz
