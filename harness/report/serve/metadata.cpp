#include "serve/metadata.h"

#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "render/table.h"
#include "serve/columns.h"
#include "serve/queries.h"

namespace kvc {
namespace {

using Json = nlohmann::ordered_json;

Json tables_of(Database& db) {
  const auto texts = read_columns(std::string(columns_yaml()));
  Json tables = Json::object();
  for (const auto& [table, columns] : schema_columns(db)) {
    Json described = Json::object();
    for (const auto& column : columns) {
      const auto& text = texts.of(table, column);
      described[column] = text.unit.empty() ? text.text : concat("[", text.unit, "] ", text.text);
    }
    tables[table] = {{"description", texts.tables.at(table).about}, {"columns", described}, {"size", 50}};
  }
  if (tables.contains("cell")) {
    tables["cell"]["facets"] = {"model", "task", "plugin"};
    tables["cell"]["label_column"] = "options_label";
  }
  return tables;
}

// The first line of a file of SQL, without its "-- ".
std::string title_of(std::string_view sql) {
  const auto line = sql.substr(0, sql.find('\n'));
  return std::string(line.starts_with("-- ") ? line.substr(3) : line);
}

// The first sentence of the comment that a file of SQL begins with.
std::string first_sentence(std::string_view sql) {
  std::string text;
  while (sql.starts_with("-- ")) {
    const auto end = sql.find('\n');
    text += (text.empty() ? "" : " ") + std::string(sql.substr(3, end - 3));
    sql.remove_prefix(end + 1);
  }
  const auto end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

// A field that is left empty stands for no experiment.
std::string with_empty_experiment(std::string_view sql) {
  const std::string_view name = ":experiment";
  std::string text;
  for (size_t at = 0;;) {
    const auto found = sql.find(name, at);
    text += sql.substr(at, found - at);
    if (found == std::string_view::npos) return text;
    text += "nullif(:experiment, '')";
    at = found + name.size();
  }
}

Json canned_queries() {
  Json queries = Json::object();
  for (const auto& query : embedded_queries()) {
    queries[std::string(query.name)] = {
        {"sql", std::string(query.sql)}, {"title", title_of(query.sql)}, {"hide_sql", true}};
  }
  for (const auto& table : embedded_tables()) {
    auto lines = std::string(table.sql);
    while (lines.starts_with("--")) lines.erase(0, lines.find('\n') + 1);  // they speak of :experiment, too
    queries["table_" + std::string(table.name)] = {{"sql", with_empty_experiment(lines)},
                                                   {"title", concat("kvc table ", table.name)},
                                                   {"description", first_sentence(table.sql)},
                                                   {"hide_sql", true}};
  }
  return queries;
}

}  // namespace

std::string datasette_metadata(Database& db, const std::string& name, const std::vector<CannedQuery>& more) {
  Json json = {{"title", "kvc"}, {"description", "Results of KV-cache compressors"}, {"databases", Json::object()}};
  auto canned = Json::object();  // what this database holds first
  for (const auto& query : more) {
    canned[query.name] = {
        {"sql", query.sql}, {"title", query.title}, {"description", query.description}, {"hide_sql", true}};
  }
  canned.update(canned_queries());
  json["databases"][name] = {{"title", concat("kvc: ", name)}, {"tables", tables_of(db)}, {"queries", canned}};
  return json.dump(2) + "\n";
}

}  // namespace kvc
