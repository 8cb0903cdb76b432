#include "serve/database_page.h"

#include "kvc/check.h"
#include "serve/columns.h"
#include "serve/queries.h"
#include "store/up_to_date.h"

namespace kvc {
namespace {

constexpr const char* kHead = R"(# The database

A run's results are one SQLite file. A **cell** is one point of an experiment's grid: a model, a task, a compressor with its
options, and settings; its key is a content hash of all that can change what is generated and measured, so databases merge
row by row. A **sample** is one question of the task, with its scores, bytes, times and what was generated.
`./kvc table --db FILE` prints the usual table, `./kvc query --db FILE SQL` any other, `./kvc serve FILE` opens it in a
browser. This page is what `./kvc page database` prints.

Tables are STRICT, so a type is what is there. Views begin with `v_`.
)";

struct Column {
  std::string name, type, key;
};

// "primary", "cell.key", or both: of the primary key, and where a foreign one points.
std::string key_of(Database& db, const std::string& table, const std::string& column, bool is_primary) {
  auto select = db.prepare("SELECT \"table\", \"to\" FROM pragma_foreign_key_list(?) WHERE \"from\" = ?");
  std::string key = is_primary ? "primary" : "";
  if (select.bind(1, table).bind(2, column).step()) {
    key += concat(key.empty() ? "" : ", ", "`", select.text(0), ".", select.text(1), "`");
  }
  return key;
}

std::vector<Column> columns_of(Database& db, const std::string& table, bool is_view) {
  std::vector<Column> columns;
  auto select = db.prepare("SELECT name, lower(type), \"notnull\", pk FROM pragma_table_info(?) ORDER BY cid");
  select.bind(1, table);
  while (select.step()) {
    const bool has_null = !is_view && select.integer(2) == 0;
    columns.push_back({select.text(0), select.text(1) + (has_null ? " or null" : ""),
                       key_of(db, table, select.text(0), select.integer(3) > 0)});
  }
  return columns;
}

std::string section_of(Database& db, const std::string& table, bool is_view, const ColumnTexts& texts) {
  auto text = concat("\n## ", table, "\n\n", texts.tables.at(table).about, "\n\n",
                     "| column | type | key | unit | what it says |\n|---|---|---|---|---|\n");
  for (const auto& column : columns_of(db, table, is_view)) {
    const auto& said = texts.of(table, column.name);
    text +=
        concat("| `", column.name, "` | ", column.type, " | ", column.key, " | ", said.unit, " | ", said.text, " |\n");
  }
  return text;
}

std::string queries() {
  std::string text =
      "\n## Queries worth copying\n\nThey stand in `results/queries`; `./kvc serve` offers them, and asks for what a "
      "name as "
      "`:cell_key` stands for.\n`wilson_low(k, n)`, `wilson_high(k, n)` and `median(x)` are the program's own.\n";
  for (const auto& query : embedded_queries()) {
    const auto end = query.sql.find('\n');  // of the line that says what it is for
    text += concat("\n**", query.sql.substr(3, end - 3), "** (`", query.name, ".sql`)\n\n```sql\n",
                   query.sql.substr(end + 1), query.sql.ends_with('\n') ? "" : "\n", "```\n");
  }
  return text;
}

}  // namespace

std::string database_page() {
  const auto texts = read_columns(std::string(columns_yaml()));
  auto db = schema_in_memory();
  std::string page = kHead;
  auto tables = db.prepare(
      "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY "
      "rowid");
  while (tables.step()) page += section_of(db, tables.text(0), tables.text(1) == "view", texts);
  return page + queries();
}

}  // namespace kvc
