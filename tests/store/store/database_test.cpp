#include "store/database.h"

#include <gtest/gtest.h>

#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

Database table_in(const fs::path& path) {
  auto db = Database::open(path, Database::Mode::kReadWrite, 0);
  db.execute("CREATE TABLE IF NOT EXISTS t (x)");
  return db;
}

void insert(Database& db) {
  Transaction transaction(db);
  db.execute("INSERT INTO t VALUES (1)");
  transaction.commit();
}

TEST(Database, ThatWasDeletedMovedOrReplacedWhileOpenTakesNoMore) {
  const test::TempFolder folder;
  const auto path = folder / "r.sqlite";
  for (const char* what : {"deleted", "moved", "replaced"}) {
    auto db = table_in(path);
    EXPECT_NO_THROW(insert(db));
    what == std::string("moved") ? fs::rename(path, folder / "elsewhere.sqlite") : (void)fs::remove(path);
    if (what == std::string("replaced")) table_in(path);
    EXPECT_NE(test::message_of([&] { insert(db); }).find("it was deleted, moved or replaced"), std::string::npos)
        << what;
    EXPECT_THROW(insert(db), EnvironmentError) << what;
  }
}

TEST(Database, TextIsUtf8WhateverTheFileHolds) {
  const test::TempFolder folder;
  auto db = table_in(folder / "r.sqlite");
  EXPECT_EQ(db.text("SELECT CAST(x'61ff62' AS TEXT)"), "a\uFFFDb");
}

}  // namespace
}  // namespace kvc
