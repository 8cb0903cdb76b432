// Databases that cannot be used: one clear line each.
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "store_fixture.h"
#include "support/stable_dump.h"
#include "text/files.h"

namespace kvc {
namespace {

class OpenTest : public StoreTest {
 protected:
  std::string problem(const std::string& text) { return concat("results database '", path_.string(), "': ", text); }
  std::string open_message(int wait_ms = 50) {
    return message_of([&] { ResultStore::open(path_, wait_ms); });
  }
  // The message that a process without privileges gets: root may write to read-only files.
  template <class Action>
  std::string unprivileged_message(Action action) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
      std::string text;
      try {
        text = message_of(action);
      } catch (const std::exception& error) {
        text = concat("not an Error: ", error.what());
      }
      _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text(4096, '\0');
    const auto n = read(ends[0], text.data(), text.size());
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return text.substr(0, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  }
};

using Perms = std::filesystem::perms;

TEST_F(OpenTest, ANewFileHasTheSchemaAndOurMark) {
  auto store = ResultStore::open(path_);
  EXPECT_EQ(store.database().integer("PRAGMA user_version"), 7);
  EXPECT_EQ(store.database().integer("PRAGMA application_id"), 1802920753);
  EXPECT_EQ(store.database().integer("PRAGMA synchronous"), 2);  // FULL
  EXPECT_EQ(open_message(), "no error");                         // a second connection
}

TEST_F(OpenTest, ANewerSchemaIsRefused) {
  ResultStore::open(path_).database().execute("PRAGMA user_version = 8");
  EXPECT_EQ(open_message(), problem("it was written by a newer kvc (schema 8, this program knows 7)"));
  EXPECT_EQ(message_of([&] { ResultStore::open_readonly(path_); }),
            problem("it was written by a newer kvc (schema 8, this program knows 7)"));
}

// Version 1 held bytes without stages: they are those of plain compressors, and none is lost.
TEST_F(OpenTest, AnOlderSchemaIsBroughtUpToDate) {
  {
    auto store = ResultStore::open(path_);
    store.put_cell(make_cell("a", "kivi", "t"));
    store.put_sample(make_sample("a", 0));
    Database::open(path_, Database::Mode::kReadWrite, 0)
        .execute(
            "CREATE TABLE old (cell_key TEXT NOT NULL, sample INTEGER NOT NULL, layer INTEGER NOT NULL, tensor TEXT "
            "NOT "
            "NULL, kind TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (cell_key, sample, layer, tensor, kind), "
            "FOREIGN "
            "KEY (cell_key, sample) REFERENCES sample (cell_key, sample) ON DELETE CASCADE) STRICT, WITHOUT ROWID;"
            "INSERT INTO old SELECT cell_key, sample, layer, tensor, kind, bytes FROM kv_bytes;"
            "DROP TABLE kv_bytes; ALTER TABLE old RENAME TO kv_bytes; DROP TABLE stage; DROP TABLE stage_time;"
            "DROP VIEW v_cell; DROP VIEW v_score; DROP TABLE probe; DROP TABLE capacity; DROP TABLE likelihood;"
            "DROP TABLE token_likelihood;"
            "ALTER TABLE sample DROP COLUMN n_prompt_tokens_before; ALTER TABLE sample DROP COLUMN peak_bytes;"
            "ALTER TABLE sample DROP COLUMN peak_other_bytes; ALTER TABLE cell DROP COLUMN kind; DROP TABLE cell_size;"
            "ALTER TABLE sample DROP COLUMN n_encoded_numbers; ALTER TABLE sample DROP COLUMN recent_bytes;"
            "ALTER TABLE cell DROP COLUMN formula;"
            "ALTER TABLE cell DROP COLUMN scoring_json;"
            "ALTER TABLE experiment_cell DROP COLUMN label; ALTER TABLE experiment_cell DROP COLUMN position;"
            "PRAGMA user_version = 1");
  }
  auto store = ResultStore::open(path_);
  auto fresh = ResultStore::open(folder_ / "fresh.sqlite");
  const char* const kTables =
      "SELECT group_concat(line, char(10)) FROM (SELECT t.name || '.' || c.name || ' ' || c.type || c.pk AS line "
      "FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table' ORDER BY line)";
  EXPECT_EQ(store.database().integer("PRAGMA user_version"), 7);
  EXPECT_EQ(store.database().text(kTables), fresh.database().text(kTables));
  EXPECT_EQ(store.database().integer("SELECT sum(n_prompt_tokens_before = n_prompt_tokens) FROM sample"), 1);
  EXPECT_EQ(store.database().text("SELECT group_concat(layer || stage || tensor || kind || bytes) FROM kv_bytes"),
            "00kcodes100,00vcodes150");
  store.put_sample(make_sample("a", 1));
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM kv_bytes"), 4);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM v_cell"), 1);
}

// The whole task stood in task_json; without its scoring it is what a key is made of.
TEST_F(OpenTest, TheScoringOfAnOlderFileLeavesTheTask) {
  {
    auto store = ResultStore::open(path_);
    for (const std::string key : {"a", "b", "c"}) store.put_cell(make_cell(key, "kivi", "t"));
    store.database().execute(
        R"(UPDATE cell SET task_json = '{"extractors":[{"name":"x"}],"metric":"accuracy","name":"t"}' WHERE key = 'a';)"
        R"(UPDATE cell SET task_json = '{"choices":{"golds":["0"],"scores":["acc"]},"extractors":[],"metric":"accuracy"}')"
        R"( WHERE key = 'b'; UPDATE cell SET task_json = '{"n_prompt_tokens":64}' WHERE key = 'c';)"
        "ALTER TABLE cell DROP COLUMN scoring_json");
  }
  auto store = ResultStore::open(path_);
  EXPECT_EQ(store.database().text("SELECT group_concat(task_json || scoring_json, char(10)) FROM cell"),
            R"({"name":"t"}{"extractors":[{"name":"x"}],"metric":"accuracy"})"
            "\n"
            R"({"choices":{"golds":["0"]}}{"choices":{"scores":["acc"]},"extractors":[],"metric":"accuracy"})"
            "\n"
            R"({"n_prompt_tokens":64}{})");
}

TEST_F(OpenTest, AnotherProgramsDatabaseIsRefusedAndLeftAlone) {
  auto foreign = Database::open(path_, Database::Mode::kReadWrite, 0);
  foreign.execute("PRAGMA application_id = 42; CREATE TABLE cell (x)");
  EXPECT_EQ(open_message(), problem("it belongs to another program (application_id 42, expected 1802920753)"));
  EXPECT_EQ(foreign.text("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(foreign.integer("SELECT count(*) FROM sqlite_schema"), 1);
}

TEST_F(OpenTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_EQ(open_message(), problem("it is damaged, or not a SQLite database"));
}

TEST_F(OpenTest, ADamagedDatabaseIsReported) {
  {
    auto store = ResultStore::open(path_);
    store.database().execute("PRAGMA journal_mode = DELETE");
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(4000, '\xFF');  // the schema's page, behind the file's header
  }
  EXPECT_EQ(open_message(), problem("it is damaged, or not a SQLite database"));
}

TEST_F(OpenTest, AMissingFolderOrFileIsNamed) {
  const auto below = folder_ / "none" / "r.sqlite";
  EXPECT_EQ(message_of([&] { ResultStore::open(below); }),
            concat("results database '", below.string(), "': there is no folder '", (folder_ / "none").string(), "'"));
  EXPECT_EQ(message_of([&] { ResultStore::open(folder_); }),
            concat("results database '", folder_.string(), "': it is a folder"));
  EXPECT_EQ(message_of([&] { ResultStore::open_readonly(path_); }), problem("there is no such file"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(OpenTest, AReadOnlyFileIsRefusedForWriting) {
  { ResultStore::open(path_); }
  std::filesystem::permissions(path_, Perms::owner_read | Perms::group_read | Perms::others_read);
  std::filesystem::permissions(folder_, Perms::all);
  EXPECT_EQ(unprivileged_message([&] { ResultStore::open(path_, 50); }),
            problem("it cannot be written: the file or its folder is read-only"));
}

TEST_F(OpenTest, AReadOnlyFolderIsRefusedForWriting) {
  { ResultStore::open(path_); }
  std::filesystem::permissions(path_, Perms::all);
  std::filesystem::permissions(folder_, static_cast<Perms>(0555));
  const auto message = unprivileged_message([&] { ResultStore::open(path_, 50); });
  const auto of_new = unprivileged_message([&] { ResultStore::open(folder_ / "new.sqlite", 50); });
  std::filesystem::permissions(folder_, Perms::all);
  EXPECT_EQ(message, problem("it cannot be written: the file or its folder is read-only"));
  EXPECT_NE(of_new.find("new.sqlite': it cannot be written: the file or its folder is read-only"), std::string::npos);
}

// What SQLite reads a log with it may not make there.
TEST_F(OpenTest, AFinishedFileInAReadOnlyFolderCanBeRead) {
  {
    auto store = ResultStore::open(path_);
    store.put_cell(make_cell("a", "kivi", "t"));
  }
  const auto odd = folder_ / "100% ?#.sqlite";
  std::filesystem::copy_file(path_, odd);
  std::filesystem::permissions(folder_, static_cast<Perms>(0555));
  for (const auto& path : {path_, odd}) {
    EXPECT_EQ(unprivileged_message([&] {
                throw Error(concat(ResultStore::open_readonly(path).database().integer("SELECT count(*) FROM cell")));
              }),
              "1");
  }
  std::filesystem::permissions(folder_, Perms::all);
}

TEST_F(OpenTest, AFileThatIsRelabelledAsAnOlderOneIsRefused) {
  { ResultStore::open(path_); }
  for (const int version : {1, 2}) {
    Database::open(path_, Database::Mode::kReadWrite, 0).execute(concat("PRAGMA user_version = ", version));
    EXPECT_EQ(open_message(), problem(concat("its version is schema ", version,
                                             ", but it has columns of a newer one; expected `PRAGMA user_version = 7` "
                                             "of a file that is up to date")));
  }
}

TEST_F(OpenTest, WhatIsReadIsTheProgramsViewsWhateverTheFileHas) {
  {
    auto store = ResultStore::open(path_);
    store.put_cell(make_cell("a", "kivi", "t"));
    store.database().execute(
        "DROP VIEW main.v_cell; CREATE VIEW main.v_cell AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
        "FROM n) SELECT 'b' AS key, count(*) AS n_ok FROM n");
  }
  for (const bool writes : {false, true}) {
    auto store = writes ? ResultStore::open(path_) : ResultStore::open_readonly(path_);
    EXPECT_EQ(store.database().text("SELECT group_concat(key) FROM v_cell"), "a");
  }
  Database::open(path_, Database::Mode::kReadWrite, 0)
      .execute("PRAGMA foreign_keys = OFF; DROP TABLE score; CREATE VIEW score AS SELECT * FROM v_cell");
  EXPECT_EQ(message_of([&] { ResultStore::open_readonly(path_); }), problem("'score' is a view, expected a table"));
}

TEST_F(OpenTest, AFolderThatMayNotBeEnteredIsNamed) {
  { ResultStore::open(path_); }
  std::filesystem::permissions(folder_, static_cast<Perms>(0700));
  EXPECT_EQ(unprivileged_message([&] { ResultStore::open(path_, 50); }),
            problem("unable to open database file: Permission denied"));
}

// Each makes the file, turns the journal over and writes a cell; a lock that one of them never gives back would show.
TEST_F(OpenTest, ProcessesThatMakeAFileAtOnceAllSucceed) {
  for (int round = 0; round < 25; ++round) {
    const auto path = folder_ / concat(round, ".sqlite");
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      try {
        ResultStore::open(path).put_cell(make_cell(concat("c", i), "full", "t/a"));
        _exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        _exit(1);
      }
    }
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "round " << round;
    }
  }
}

TEST_F(OpenTest, AnotherWriterIsWaitedForAndThenNamed) {
  auto store = ResultStore::open(path_, 50);
  store.put_cell(make_cell("c", "low", "t/a"));
  auto other = ResultStore::open(path_, 50);
  {
    Transaction held(other.database());
    EXPECT_EQ(message_of([&] { store.put_sample(make_sample("c", 0)); }),
              problem("another process is writing to it, and did not finish in time"));
  }
  EXPECT_EQ(store.put_sample(make_sample("c", 0)), ResultStore::Put::kStored);
}

TEST_F(OpenTest, AFullDiskLosesNothingThatWasStored) {
  auto store = ResultStore::open(path_);
  store.put_cell(make_cell("c", "low", "t/a"));
  store.put_sample(make_sample("c", 0));
  const auto before = stable_dump(store.database());
  const auto n_pages = store.database().integer("PRAGMA page_count");
  store.database().integer(concat("PRAGMA max_page_count = ", n_pages));
  auto large = make_sample("c", 1);
  large.generation = std::string(1 << 20, 'x');
  EXPECT_EQ(message_of([&] { store.put_sample(large); }),
            problem("no space left on the device; everything stored before is safe: free some space and run again"));
  EXPECT_EQ(stable_dump(store.database()), before);
  store.database().integer("PRAGMA max_page_count = 1000000");
  EXPECT_EQ(store.put_sample(large), ResultStore::Put::kStored);
}

TEST_F(OpenTest, AReadOnlyConnectionCannotWrite) {
  ResultStore::open(path_).put_cell(make_cell("c", "low", "t/a"));
  auto store = ResultStore::open_readonly(path_);
  EXPECT_EQ(store.cell_status("c")->n_missing, 2);
  EXPECT_EQ(message_of([&] { store.put_sample(make_sample("c", 0)); }),
            problem("it cannot be written: the file or its folder is read-only"));
}

// SQLite would wait for a pipe's other end, and cut a name at a NUL.
TEST_F(OpenTest, WhatIsNoFileIsRefusedByItsKind) {
  const auto folder = path_.parent_path();
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  std::filesystem::create_symlink("loop", folder / "loop");
  const std::pair<std::filesystem::path, std::string> kinds[] = {
      {folder / "pipe", "it is a named pipe (FIFO), expected a file"},
      {folder / "link", "it is a named pipe (FIFO), expected a file"},
      {folder / "loop", "Too many levels of symbolic links"},
      {"/dev/null", "it is a device, expected a file"},
      {folder, "it is a folder"},
      {folder / std::string("a\0b", 3), "its name holds a NUL character"},
  };
  for (const auto& [path, why] : kinds) {
    const auto expected = concat("results database ", path_in_quotes(path), ": ", why);
    EXPECT_EQ(message_of([&] { ResultStore::open(path); }), expected);
    EXPECT_EQ(message_of([&] { ResultStore::open_readonly(path); }), expected);
    EXPECT_EQ(message_of([&] { Database::open(path, Database::Mode::kReadOnly, 10); }), expected);
    auto store = ResultStore::open(":memory:");
    EXPECT_EQ(message_of([&] { store.database().attach(path, "other"); }), expected);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

}  // namespace
}  // namespace kvc
