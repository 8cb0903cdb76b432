#include "merge/shard.h"

#include <glob.h>
#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <set>

#include "kvc/check.h"
#include "store/result_store.h"
#include "store/unpacked.h"
#include "store/up_to_date.h"
#include "text/message.h"
#include "text/unpack_xz.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

constexpr int kWaitMs = 10'000;

std::vector<fs::path> in_folder(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto& path = entry.path();
    if (path.extension() == ".sqlite" || (is_xz(path) && path.stem().extension() == ".sqlite"))
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> of_pattern(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, &::globfree);
  if (::glob(pattern.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code missing;
  return fs::equivalent(a, b, missing);
}

// "sample.cell_key": of real tables, by name: an upgraded file has some columns at other places.
std::set<std::string> columns_of(Database& db) {
  std::set<std::string> columns;
  auto select = db.prepare(
      "SELECT t.name || '.' || c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
      " WHERE t.type = 'table' AND t.sql LIKE 'CREATE TABLE%'");
  while (select.step()) columns.insert(select.text(0));
  return columns;
}

void copy_into_shard(Database& db, const fs::path& path) {
  auto source = Database::open(path, Database::Mode::kReadWrite, kWaitMs);  // a killed writer's journal is rolled back
  db.execute("ATTACH '' AS shard");
  auto* backup = sqlite3_backup_init(db.handle(), "shard", source.handle(), "main");
  if (!backup) db.fail(sqlite3_errcode(db.handle()));
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE) return;
  db.execute("DETACH shard");
  source.fail(code);
}

}  // namespace

std::vector<fs::path> shard_paths(const std::vector<std::string>& arguments, const fs::path& out) {
  std::vector<fs::path> shards;
  for (const auto& argument : arguments) {
    const bool is_there = fs::exists(argument), is_folder = fs::is_directory(argument);
    if (!is_folder && (is_there || argument.find_first_of("*?[") == std::string::npos)) {
      KVC_CHECK(!is_same_file(argument, out), "shard '", argument, "': it is the target of the merge");
      shards.emplace_back(argument);
      continue;
    }
    auto found = is_folder ? in_folder(argument) : of_pattern(argument);
    std::erase_if(found, [&](const auto& path) { return is_same_file(path, out); });
    KVC_CHECK(!found.empty(), "shards '", argument,
              "': ", is_folder ? "no *.sqlite or *.sqlite.xz in the folder" : "no file matches the pattern");
    shards.insert(shards.end(), found.begin(), found.end());
  }
  return shards;
}

void check_shard(const fs::path& path) {
  auto store = ResultStore::open_readonly(path, kWaitMs);
  auto& db = store.database();
  const auto damage = db.text("PRAGMA integrity_check(1)");
  KVC_CHECK(damage == "ok", "results database '", path.string(), "': it is damaged: ", in_one_line(damage));
  auto schema = schema_in_memory();
  const auto version = db.integer("PRAGMA user_version");
  KVC_CHECK(version == schema.integer("PRAGMA user_version"), "results database '", path.string(),
            "': written by an earlier kvc (schema ", version, "); any `kvc run` into it upgrades it");
  const auto there = columns_of(db);
  for (const auto& column : columns_of(schema)) {
    KVC_CHECK(there.contains(column), "results database '", path.string(), "': schema ", version,
              " without the column ", column);
  }
}

AttachedShard::AttachedShard(Database& db, const fs::path& path) : db_(db) {
  const auto file = unpacked(path, unpacked_in_);
  if (is_write_ahead(file)) {
    db_.attach(file, "shard");
  } else {
    copy_into_shard(db_, file);
  }
}

AttachedShard::~AttachedShard() { sqlite3_exec(db_.handle(), "DETACH shard", nullptr, nullptr, nullptr); }

}  // namespace kvc
