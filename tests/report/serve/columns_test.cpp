// Every column is described, and nothing else is.
#include "serve/columns.h"

#include <nlohmann/json.hpp>
#include <set>

#include "../../store/store/store_fixture.h"
#include "analysis/query.h"
#include "serve/metadata.h"
#include "store/embedded_sql.h"
#include "store/up_to_date.h"

namespace kvc {
namespace {

TEST(Columns, EveryColumnOfTheSchemaHasItsText) {
  auto db = schema_in_memory();
  const auto texts = read_columns(std::string(columns_yaml()));
  for (const auto& [table, columns] : schema_columns(db)) {
    EXPECT_FALSE(texts.tables.at(table).about.empty()) << table;
    for (const auto& column : columns) EXPECT_FALSE(texts.of(table, column).text.empty()) << table << "." << column;
  }
}

TEST(Columns, NothingIsDescribedThatIsNotThere) {
  auto db = schema_in_memory();
  const auto schema = schema_columns(db);
  const auto texts = read_columns(std::string(columns_yaml()));
  std::set<std::string> all;
  for (const auto& [table, columns] : schema) all.insert(columns.begin(), columns.end());
  for (const auto& [column, text] : texts.everywhere) EXPECT_TRUE(all.contains(column)) << column;
  for (const auto& [table, text] : texts.tables) {
    ASSERT_TRUE(schema.contains(table)) << table;
    const std::set<std::string> columns(schema.at(table).begin(), schema.at(table).end());
    for (const auto& [column, about] : text.columns) EXPECT_TRUE(columns.contains(column)) << table << "." << column;
  }
}

TEST(Columns, UnitsFollowTheNames) {
  auto db = schema_in_memory();
  const auto texts = read_columns(std::string(columns_yaml()));
  for (const auto& [table, columns] : schema_columns(db)) {
    for (const auto& column : columns) {
      if (column.ends_with("_bytes")) EXPECT_EQ(texts.of(table, column).unit, "bytes") << table << "." << column;
      if (column.ends_with("_seconds")) EXPECT_EQ(texts.of(table, column).unit, "seconds") << table << "." << column;
      if (column.ends_with("_tokens")) EXPECT_EQ(texts.of(table, column).unit, "tokens") << table << "." << column;
    }
  }
}

TEST(Columns, AColumnWithoutTextIsRefused) {
  auto db = schema_in_memory();
  db.execute("CREATE TABLE extra (cell_key TEXT)");  // what is said of it everywhere is said of known tables
  EXPECT_EQ(message_of([&] { datasette_metadata(db, "x"); }),
            "results/columns.yaml: no description of column 'extra.cell_key'");
}

TEST(Columns, AnUnknownTableIsRefused) {
  EXPECT_NE(message_of([&] { columns_table("sampel"); }).find("did you mean 'sample'"), std::string::npos);
}

TEST(Metadata, HoldsATextForEveryColumnAndAQueryForEveryTable) {
  auto db = schema_in_memory();
  const auto json = nlohmann::json::parse(datasette_metadata(db, "mine"));
  const auto& mine = json.at("databases").at("mine");
  EXPECT_EQ(mine.at("tables").at("sample").at("columns").at("prefill_seconds"),
            "[seconds] time of the prompt's prefill, shared by all compressors of the run");
  for (const auto& name : table_names()) EXPECT_TRUE(mine.at("queries").contains("table_" + name)) << name;
}

}  // namespace
}  // namespace kvc
