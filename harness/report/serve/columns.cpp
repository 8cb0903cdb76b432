#include "serve/columns.h"

#include "kvc/check.h"
#include "store/embedded_sql.h"
#include "store/up_to_date.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

ColumnText read_text(const YamlValue& value) {
  if (!value.is_sequence()) return {"", value.string()};
  const auto parts = value.strings();
  if (parts.size() != 2) value.fail(value.name(), " has ", parts.size(), " parts, expected a text or [unit, text]");
  return {parts[0], parts[1]};
}

std::map<std::string, ColumnText> read_texts(const YamlValue& value) {
  std::map<std::string, ColumnText> texts;
  auto map = value.map();
  for (const auto& [name, text] : map.entries()) texts.emplace(name, read_text(text));
  return texts;
}

}  // namespace

const ColumnText& ColumnTexts::of(const std::string& table, const std::string& column) const {
  const auto found = tables.find(table);
  if (found != tables.end()) {
    const auto own = found->second.columns.find(column);
    if (own != found->second.columns.end()) return own->second;
  }
  const auto shared = everywhere.find(column);
  KVC_CHECK(found != tables.end() && shared != everywhere.end(), "results/columns.yaml: no description of column '",
            table, ".", column, "'");
  return shared->second;
}

ColumnTexts read_columns(const std::string& yaml) {
  ColumnTexts texts;
  auto file = parse_yaml("results/columns.yaml", yaml).map();
  texts.everywhere = read_texts(file.required("everywhere"));
  auto tables = file.required("tables").map();
  for (const auto& [name, value] : tables.entries()) {
    auto map = value.map();
    texts.tables[name] = {map.required_string("about"), read_texts(map.required("columns"))};
    map.reject_unknown();
  }
  file.reject_unknown();
  return texts;
}

std::map<std::string, std::vector<std::string>> schema_columns(Database& db) {
  std::map<std::string, std::vector<std::string>> columns;
  auto select = db.prepare(
      "SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c"
      " WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite%' ORDER BY m.name, c.cid");
  while (select.step()) columns[select.text(0)].push_back(select.text(1));
  return columns;
}

Table columns_table(const std::string& table) {
  const auto texts = read_columns(std::string(columns_yaml()));
  auto db = schema_in_memory();
  const auto columns = schema_columns(db);
  std::vector<std::string> names;
  for (const auto& [name, list] : columns) names.push_back(name);
  KVC_CHECK(table.empty() || columns.contains(table), unknown_name("table", table, names));
  Table made;
  made.columns = {{"table"}, {"column"}, {"unit"}, {"meaning"}};
  for (const auto& [name, list] : columns) {
    if (!table.empty() && name != table) continue;
    for (const auto& column : list) {
      const auto& text = texts.of(name, column);
      made.rows.push_back({name, column, text.unit, text.text});
    }
  }
  return made;
}

}  // namespace kvc
