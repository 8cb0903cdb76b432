// Shards into one database: in any order, again, unfinished, in conflict, damaged.
#include <algorithm>
#include <fstream>
#include <numeric>

#include "merge_fixture.h"
#include "text/files.h"

namespace kvc {
namespace {

TEST_F(MergeTest, OneTwoAndFiveShardsComeToOneDatabase) {
  const auto whole = dump(shard("whole.sqlite", 0, 1));
  for (const int64_t n : {1, 2, 5}) {
    std::vector<std::filesystem::path> shards;
    for (int64_t i = 0; i < n; ++i) shards.push_back(shard(concat("shard-", n, "-", i, ".sqlite"), i, n));
    const auto out = folder_ / concat("out-", n, ".sqlite");
    EXPECT_EQ(merge(out, shards).n_conflicts, 0);
    EXPECT_EQ(dump(out), whole) << n << " shards";
  }
}

TEST_F(MergeTest, AllOrdersOfThreeShardsComeToOneDatabase) {
  const auto whole = dump(shard("whole.sqlite", 0, 1));
  std::vector<std::filesystem::path> shards;
  for (int64_t i = 0; i < 3; ++i) shards.push_back(shard(concat("shard-", i, ".sqlite"), i, 3));
  int n_orders = 0;
  do {
    const auto out = folder_ / concat("out-", n_orders++, ".sqlite");
    merge(out, shards);
    EXPECT_EQ(dump(out), whole);
  } while (std::next_permutation(shards.begin(), shards.end()));
  EXPECT_EQ(n_orders, 6);
}

TEST_F(MergeTest, MergedAgainNothingIsNewAndNothingDiffers) {
  const auto a = shard("a.sqlite", 0, 2), b = shard("b.sqlite", 1, 2);
  merge(path_, {a, b});
  const auto once = dump(path_);
  const auto again = merge(path_, {b, a});
  EXPECT_EQ(again.n_new, 0);
  EXPECT_EQ(again.n_there, kCells * kSamples / 2);
  EXPECT_EQ(again.n_conflicts, 0);
  EXPECT_EQ(dump(path_), once);
}

TEST_F(MergeTest, HalfWrittenShardsAndThenTheFinishedOnesComeToTheSame) {
  const auto whole = dump(shard("whole.sqlite", 0, 1));
  shard("a.sqlite", 0, 2, 2), shard("b.sqlite", 1, 2, 3);
  merge(path_, {folder_ / "b.sqlite", folder_ / "a.sqlite"});
  const auto half = dump(path_);
  EXPECT_NE(half, whole);
  merge(path_, {shard("a.sqlite", 0, 2), shard("b.sqlite", 1, 2)});
  EXPECT_EQ(dump(path_), whole);
}

// A writer holds its transaction all the while.
TEST_F(MergeTest, AShardIsReadWhileItIsWritten) {
  const auto path = shard("a.sqlite", 0, 1, 2);
  auto writer = ResultStore::open(path);
  Transaction open(writer.database());
  writer.database().execute("DELETE FROM sample WHERE cell_key = 'cell0'");
  const auto counts = merge(path_, {path});
  EXPECT_EQ(counts.n_new, kCells * 2);
  open.commit();  // and the writer was not kept from going on
  EXPECT_EQ(writer.database().integer("SELECT count(*) FROM sample"), (kCells - 1) * 2);
}

TEST_F(MergeTest, AShardOfTheRollbackJournalIsReadAsACopy) {
  const auto path = shard("a.sqlite", 0, 1);
  Database::open(path, Database::Mode::kReadWrite, 0).execute("PRAGMA journal_mode = DELETE");
  ASSERT_FALSE(is_write_ahead(path));
  EXPECT_EQ(merge(path_, {path}).n_new, kCells * kSamples);
  EXPECT_EQ(dump(path_), dump(path));
}

// Both sides are kept, by name, and what was there stays, however often it is merged.
TEST_F(MergeTest, PackedShardsComeToTheSameAsTheyAreFoundInAFolder) {
  const auto whole = dump(shard("whole.sqlite", 0, 1));
  std::filesystem::create_directory(folder_ / "packed");
  for (int64_t i = 0; i < 3; ++i) {
    const auto path = shard(concat("packed/", i, ".sqlite"), i, 3);
    packed(path);
    if (i > 0) std::filesystem::remove(path);
  }
  const auto shards = shard_paths({(folder_ / "packed").string()}, path_);
  EXPECT_EQ(shards.size(), 4u);  // one of them twice
  EXPECT_EQ(merge(path_, shards).n_conflicts, 0);
  EXPECT_EQ(dump(path_), whole);
}

// Read by everything that reads a database, and written by nothing.
TEST_F(MergeTest, APackedDatabaseIsOnlyReadAndTheWholeOfIt) {
  const auto whole = shard("whole.sqlite", 0, 1);
  const auto path = packed(whole);
  EXPECT_EQ(dump(path), dump(whole));
  EXPECT_NE(message_of([&] { ResultStore::open(path); }).find("it is packed, and only read; to write into it: unxz"),
            std::string::npos);
  const auto bytes = read_file(path);
  const auto cut = folder_.write("cut.sqlite.xz", bytes.substr(0, bytes.size() - 30));
  const auto other = folder_.write("other.sqlite.xz", "SQLite format 3");
  const auto said = [&](const std::string& file) { return folder_.relative(message_of([&] { check_shard(file); })); };
  EXPECT_EQ(said(cut), "'cut.sqlite.xz': it is damaged or cut off");
  EXPECT_EQ(said(other), "'other.sqlite.xz': it is no .xz file");
}

TEST_F(MergeTest, AnotherScoreIsAConflictAndOverwritesNothing) {
  const auto a = shard("a.sqlite", 0, 1), b = shard("b.sqlite", 0, 1);
  {
    ResultStore::open(b).database().execute(
        "UPDATE score SET value = 0.5 WHERE cell_key = 'cell2' AND sample = 3 AND extractor = 'first'");
  }
  merge(path_, {a});
  const auto before = dump(path_);
  for (int i = 0; i < 2; ++i) {
    const auto counts = merge(path_, {b});
    ASSERT_EQ(counts.n_conflicts, 1);
    EXPECT_EQ(counts.n_new, 0);
    const auto& c = counts.conflicts.front();
    EXPECT_EQ(concat(c.table, " ", c.cell_key, " ", c.sample, " ", c.row_key, " ", c.column, " ", c.kept, " ", c.other),
              "score cell2 3 {\"extractor\":\"first\"} value 1.0 0.5");
    EXPECT_EQ(c.plugin + " " + c.task, "full task2");
  }
  EXPECT_EQ(dump(path_), before);
  auto store = ResultStore::open_readonly(path_);
  EXPECT_EQ(store.database().text("SELECT group_concat(shard || kept || other) FROM conflicts"), b.string() + "1.00.5");
}

struct Change {
  const char *sql, *conflicts;
};

// Of each table: what an answer, a score or a byte count is, and what is the machine's or the moment's.
TEST_F(MergeTest, WhatDiffersIsNamedAndTimesAndPeaksMayDiffer) {
  const std::vector<Change> changes{
      {"UPDATE sample SET generation = 'x' WHERE cell_key = 'cell1' AND sample = 0", "sample.generation ' 4' 'x'"},
      {"UPDATE sample SET kv_bytes = 7 WHERE cell_key = 'cell1' AND sample = 0", "sample.kv_bytes 250 7"},
      {"UPDATE sample SET k_error = NULL WHERE cell_key = 'cell1' AND sample = 0", "sample.k_error 0.004 NULL"},
      {"UPDATE score SET answer = NULL WHERE cell_key = 'cell1' AND sample = 0 AND position = 0",
       "score.answer '4' NULL"},
      {"DELETE FROM score WHERE cell_key = 'cell1' AND sample = 0 AND position = 1",
       "score. {\"position\":1,\"answer\":null,\"value\":0.0} NULL"},
      {"INSERT INTO kv_bytes VALUES ('cell1', 0, 9, 0, 'k', 'codes', 1)", "kv_bytes. NULL {\"bytes\":1}"},
      {"UPDATE kv_bytes SET bytes = 1 WHERE cell_key = 'cell1' AND sample = 0 AND tensor = 'k'",
       "kv_bytes.bytes 100 1"},
      {"UPDATE cell SET options_json = '[]' WHERE key = 'cell1'", "cell.options_json '{}' '[]'"},
      {"UPDATE sample SET prefill_seconds = 99, peak_kv_bytes = 99, peak_bytes = 99, n_reused_tokens = 9", ""},
      {"UPDATE cell SET n_samples = 99; UPDATE cell_provenance SET sha256 = 'x', provenance_json = '[]'", ""},
  };
  const auto a = shard("a.sqlite", 0, 1);
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto b = shard(concat("b", i, ".sqlite"), 0, 1), out = folder_ / concat("out", i, ".sqlite");
    ResultStore::open(b).database().execute(changes[i].sql);
    std::string found;
    for (const auto& c : merge(out, {a, b}).conflicts)
      found += concat(c.table, ".", c.column, " ", c.kept, " ", c.other);
    EXPECT_EQ(found, changes[i].conflicts) << changes[i].sql;
  }
}

TEST_F(MergeTest, ATextThatAShardLeavesOutComesFromTheOneThatHasIt) {
  const auto a = shard("a.sqlite", 0, 1), b = shard("b.sqlite", 0, 1), whole = shard("whole.sqlite", 0, 1);
  ResultStore::open(a).database().execute("UPDATE text SET body = ''");
  for (const auto& [name, shards] : {std::pair{"ab", std::vector{a, b}}, std::pair{"ba", std::vector{b, a}}}) {
    const auto out = folder_ / name;
    EXPECT_EQ(merge(out, shards).n_conflicts, 0) << name;
    EXPECT_EQ(dump(out), dump(whole)) << name;
  }
}

TEST_F(MergeTest, OfACellThatIsDescribedOtherwiseNothingIsTaken) {
  const auto a = shard("a.sqlite", 0, 2), b = shard("b.sqlite", 1, 2);
  ResultStore::open(b).database().execute("UPDATE cell SET scoring_json = '[]' WHERE key = 'cell1'");
  const auto counts = merge(path_, {a, b});
  EXPECT_EQ(counts.n_conflicts, 1);
  EXPECT_EQ(counts.n_new, (kCells - 1) * kSamples / 2);
  EXPECT_EQ(ResultStore::open(path_).finished_samples("cell1").size(), static_cast<size_t>(kSamples / 2));
}

TEST_F(MergeTest, AFailedTryGivesWayToAnAnswerInEitherOrder) {
  const auto good = shard("good.sqlite", 0, 1);
  auto bad = shard("bad.sqlite", 0, 1, 0);
  ResultStore::open(bad).put_sample(failed_sample("cell0", 2));
  const auto ab = folder_ / "ab.sqlite", ba = folder_ / "ba.sqlite";
  EXPECT_EQ(merge(ab, {good, bad}).n_conflicts, 0);
  const auto counts = merge(ba, {bad, good});
  EXPECT_EQ(counts.n_conflicts, 0);
  EXPECT_EQ(counts.n_replaced, 1);
  EXPECT_EQ(dump(ab), dump(ba));
  EXPECT_EQ(dump(ab), dump(good));
}

TEST_F(MergeTest, AttemptsAreThoseOfAllShardsAndGetTheirEnds) {
  const auto a = shard("a.sqlite", 0, 2), b = shard("b.sqlite", 1, 2);
  const auto put = [](const std::filesystem::path& path, const std::string& values) {
    ResultStore::open(path).database().execute("INSERT OR REPLACE INTO attempt VALUES " + values);
  };
  put(a, "('cell0', 100, 'h1', 7, 'cpu', 150, NULL)");  // killed or going on
  put(b, "('cell0', 200, 'h2', 8, 'cuda', 260, 'ended')");
  merge(path_, {b, a, a});
  put(a, "('cell0', 100, 'h1', 7, 'cpu', 190, 'interrupted'), ('cell1', 100, 'h1', 7, 'cpu', 180, 'error')");
  merge(path_, {a, b});
  auto store = ResultStore::open(path_);
  const char* const kRows =
      "SELECT group_concat(cell_key || attempts || host || device || started_at || ended_at || outcome, ' ')"
      " FROM (SELECT * FROM v_attempt ORDER BY cell_key)";
  EXPECT_EQ(store.database().text(kRows), "cell02h2cuda100.0260.0ended cell11h1cpu100.0180.0error");
  EXPECT_EQ(store.database().text("SELECT outcome || ended_at FROM attempt WHERE host = 'h1' AND cell_key = 'cell0'"),
            "interrupted190.0");
}

TEST_F(MergeTest, DamagedAndForeignFilesAreNamed) {
  const auto whole = shard("whole.sqlite", 0, 1);
  Database::open(whole, Database::Mode::kReadWrite, 0).execute("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto bytes = [&] {
    std::ifstream file(whole, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  const auto said = [&](const std::string& name, const std::string& content) {
    const auto path = folder_.write(name, content);
    return folder_.relative(message_of([&] { check_shard(path); }));
  };
  EXPECT_NE(said("cut.sqlite", bytes.substr(0, bytes.size() / 2)).find("'cut.sqlite': it is damaged"),
            std::string::npos);
  EXPECT_EQ(said("text.sqlite", std::string(4096, 'x')),
            "results database 'text.sqlite': it is damaged, or not a SQLite database");
  EXPECT_EQ(said("empty.sqlite", ""), "results database 'empty.sqlite': it has no results");
  Database::open(folder_ / "foreign.sqlite", Database::Mode::kReadWrite, 0).execute("CREATE TABLE sample (a)");
  EXPECT_NE(message_of([&] { check_shard(folder_ / "foreign.sqlite"); }).find("it belongs to another program"),
            std::string::npos);
  const auto relabelled = [&](const std::string& sql) {
    const auto path = folder_.write("odd.sqlite", bytes);
    Database::open(path, Database::Mode::kReadWrite, 0).execute(sql);
    return folder_.relative(message_of([&] { check_shard(path); }));
  };
  EXPECT_NE(relabelled("PRAGMA user_version = 99").find("it was written by a newer kvc (schema 99"), std::string::npos);
  EXPECT_NE(relabelled("PRAGMA user_version = 5").find("written by an earlier kvc (schema 5)"), std::string::npos);
  EXPECT_NE(relabelled("DROP TABLE stage_time").find("without the column stage_time."), std::string::npos);
  EXPECT_EQ(
      message_of([&] { check_shard(folder_ / "none.sqlite"); }).find("there is no such file") == std::string::npos,
      false);
}

TEST_F(MergeTest, AShardOfAnEarlierProgramIsReadAsAnUpgradedCopy) {
  const auto path = shard("early.sqlite", 0, 1);
  Database::open(path, Database::Mode::kReadWrite, 0).execute("ALTER TABLE experiment_cell DROP COLUMN min_baseline");
  const auto before = read_file(path);
  auto store = ResultStore::open(path_);
  check_shard(path);
  EXPECT_GT(merge_shard(store.database(), path).n_cells, 0);
  EXPECT_EQ(read_file(path), before);
}

TEST_F(MergeTest, OfAShardWhoseRowsDoNotHoldTogetherNothingIsTaken) {
  const auto path = shard("odd.sqlite", 0, 1);
  Database::open(path, Database::Mode::kReadWrite, 0)
      .execute("PRAGMA foreign_keys = OFF; DELETE FROM cell WHERE key = 'cell3'");
  auto store = ResultStore::open(path_);
  const auto message = message_of([&] { merge_shard(store.database(), path); });
  EXPECT_EQ(folder_.relative(message),
            "results database 'odd.sqlite': its rows are inconsistent: FOREIGN KEY constraint failed");
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM cell"), 0);
}

TEST_F(MergeTest, FoldersAndPatternsNameShardsAndLeaveTheResultOut) {
  for (const char* name : {"b.sqlite", "a.sqlite", "out.sqlite", "note.txt"}) folder_.write(name, "");
  const auto out = folder_ / "out.sqlite";
  const std::vector<std::filesystem::path> both{folder_ / "a.sqlite", folder_ / "b.sqlite"};
  EXPECT_EQ(shard_paths({folder_.string()}, out), both);
  EXPECT_EQ(shard_paths({folder_.string() + "/*.sqlite"}, out), both);
  EXPECT_EQ(shard_paths({"gone.sqlite"}, out).size(), 1u);  // is named when it is opened
  EXPECT_NE(message_of([&] { shard_paths({folder_.string() + "/x*"}, out); }).find("no file matches"),
            std::string::npos);
  EXPECT_NE(message_of([&] { shard_paths({out.string()}, out); }).find("target of the merge"), std::string::npos);
}

// A table that is added to the schema must be merged, too.
TEST_F(MergeTest, EveryTableButThoseOfLivingRunsIsMerged) {
  const auto a = shard("a.sqlite", 0, 1);
  {
    auto store = ResultStore::open(a);
    store.database().execute(
        "INSERT INTO cell_size VALUES ('cell0', 4096, '', 1, 2, 3, 4, 5, 6);"
        "INSERT INTO likelihood VALUES ('cell0', 0, 0, 5, 1.5, 0.25, 3);"
        "INSERT INTO token_likelihood VALUES ('cell0', 0, 0, 1, x'0000803f', x'00000000', x'0000803f', x'01', '[]');"
        "INSERT INTO stage VALUES ('cell0', 1, 'kivi', 'x', 'stage 1', '{}');"
        "INSERT INTO stage_time VALUES ('cell0', 0, 1, 0.5, 0.5);"
        "INSERT INTO probe VALUES ('cell1', 90, 'm', 0, 0, 'k', 0, 1.5);"
        "INSERT INTO timing VALUES ('cell0', 0, 'total', 'all', 1, 1, 1, 1.5);"
        "INSERT INTO memory VALUES ('cell0', 1, 1, 1, 0, 'kv', 5);"
        "INSERT INTO memory_read VALUES ('cell0', 1, 1, 1, 0, 5, 1.5);"
        "INSERT INTO capacity VALUES ('cell0', 'max_batch', 'tried', 5, 5, 5);"
        "INSERT INTO attempt VALUES ('cell0', 1, 'h', 1, 'cpu', 2, NULL);"
        "INSERT INTO conflicts VALUES ('text', '', -1, '', 'body', 's', 'a', 'b');"
        "INSERT INTO external_result VALUES ('s', 'i', 'm', 'm', 'o', 'c', 1.5, '', '');"
        "INSERT INTO search VALUES ('k', 'c', 'e', 'm', 't', '[]', 'p', 's', 'o', '{}', '2', 0.5, 1, 1, 1, 1, 1);"
        "INSERT INTO search_candidate VALUES ('k', 0, 'p', 'uniform', '', 1.5, 5, 1);"
        "INSERT INTO search_layer VALUES ('k', 0, 0, 2, 5);");
  }
  merge(path_, {a});
  auto out = ResultStore::open_readonly(path_), in = ResultStore::open_readonly(a);
  auto tables = out.database().prepare(
      "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT IN ('run', 'claim')");
  while (tables.step()) {
    const auto count = "SELECT count(*) FROM " + tables.text(0);
    EXPECT_GT(in.database().integer(count), 0) << tables.text(0);
    EXPECT_EQ(out.database().integer(count), in.database().integer(count)) << tables.text(0);
  }
  EXPECT_EQ(merge(path_, {a}).n_conflicts, 0);
}

}  // namespace
}  // namespace kvc
