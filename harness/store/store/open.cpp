// Opening a results database: whose file it is, which version, and how it is kept safe on its file system.
#include <sqlite3.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "kvc/check.h"
#include "stats/interval_views.h"
#include "store/embedded_sql.h"
#include "store/result_store.h"
#include "store/unpacked.h"
#include "store/up_to_date.h"
#include "text/message.h"
#include "text/unpack_xz.h"

namespace kvc {
namespace {

constexpr int64_t kApplicationId = 1802920753;  // 'kvc1', as in results/schema.sql
constexpr int64_t kSchemaVersion = 7;

// SQLite's write-ahead log needs memory shared by all processes, which these file systems do not give. Magic numbers
// from linux/magic.h and statfs(2): NFS, SMB, CIFS, SMB2, FUSE, 9P, AFS, Ceph, Lustre, GPFS, BeeGFS, PanFS.
constexpr std::array<uint32_t, 12> kSharedFileSystems = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42,
                                                         0x65735546, 0x01021997, 0x5346414F, 0x00C36400,
                                                         0x0BD00BD0, 0x47504653, 0x19830326, 0xAAD7AAEA};

bool is_on_shared_file_system(const std::string& path) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return true;  // unknown: the rollback journal works everywhere
  const auto type = static_cast<uint32_t>(info.f_type);
  return std::find(kSharedFileSystems.begin(), kSharedFileSystems.end(), type) != kSharedFileSystems.end();
}

// Whether the file holds nothing yet. Throws when it is another program's, or from a newer version of this one.
bool is_empty(Database& db) {
  db.execute("SAVEPOINT look");  // one state of the file: another process may be making it
  const auto application_id = db.integer("PRAGMA application_id");
  const auto version = db.integer("PRAGMA user_version");
  const auto n_objects = db.integer("SELECT count(*) FROM sqlite_schema");
  db.execute("RELEASE look");
  if (application_id == 0 && version == 0 && n_objects == 0) return true;
  KVC_CHECK(application_id == kApplicationId, "results database '", db.path(),
            "': it belongs to another program (application_id ", application_id, ", expected ", kApplicationId, ")");
  KVC_CHECK(version <= kSchemaVersion, "results database '", db.path(), "': it was written by a newer kvc (schema ",
            version, ", this program knows ", kSchemaVersion, ")");
  KVC_CHECK(version >= 1, "results database '", db.path(), "': schema ", version, ", expected ", kSchemaVersion);
  return false;
}

void create_schema(Database& db) {
  Transaction transaction(db);
  if (is_empty(db)) db.execute(std::string(schema_sql()));  // another process may have been first
  transaction.commit();
}

// A number that was set by hand: to upgrade what is upgraded would end half-way, in SQLite's words.
void check_relabelled(Database& db) {
  db.execute("BEGIN");  // another process may be upgrading it
  const auto version = db.integer("PRAGMA user_version");
  const bool is_newer = (version < 2 && has_column(db, "sample", "n_prompt_tokens_before")) ||
                        (version < 3 && has_column(db, "cell", "kind"));
  db.execute("COMMIT");
  KVC_CHECK(!is_newer, "results database '", db.path(), "': its version is schema ", version,
            ", but it has columns of a newer one; expected `PRAGMA user_version = ", kSchemaVersion,
            "` of a file that is up to date");
}

// "CREATE TABLE name ...;" as it stands in the schema.
std::string create_statement(const std::string& name) {
  const auto schema = schema_sql();
  constexpr std::string_view kEnd = ") STRICT, WITHOUT ROWID;";
  const auto start = schema.find("CREATE TABLE " + name + " (");
  return std::string(schema.substr(start, schema.find(kEnd, start) + kEnd.size() - start));
}

// Version 1 knew no stages: its bytes are those of plain compressors.
void upgrade_from_1(Database& db) {
  Transaction transaction(db);
  if (db.integer("PRAGMA user_version") != 1) return;  // another process was first
  db.execute("ALTER TABLE kv_bytes RENAME TO kv_bytes_1");
  db.execute(create_statement("kv_bytes"));
  db.execute("INSERT INTO kv_bytes SELECT cell_key, sample, layer, 0, tensor, kind, bytes FROM kv_bytes_1");
  db.execute("DROP TABLE kv_bytes_1");
  // Until then no prompt was truncated.
  db.execute("ALTER TABLE sample ADD COLUMN n_prompt_tokens_before INTEGER NOT NULL DEFAULT 0");
  db.execute("UPDATE sample SET n_prompt_tokens_before = n_prompt_tokens");
  db.execute("PRAGMA user_version = 2");
  transaction.commit();
}

// Version 2 knew tasks alone, and no peak but the sum of its parts.
void upgrade_from_2(Database& db) {
  Transaction transaction(db);
  if (db.integer("PRAGMA user_version") != 2) return;
  db.execute("DROP VIEW IF EXISTS v_cell");  // add_missing makes the new one
  db.execute(
      "ALTER TABLE cell ADD COLUMN kind TEXT NOT NULL DEFAULT 'eval'"
      " CHECK (kind IN ('eval', 'probe', 'bench', 'capacity'))");
  db.execute("ALTER TABLE sample ADD COLUMN peak_bytes INTEGER");
  db.execute("ALTER TABLE sample ADD COLUMN peak_other_bytes INTEGER");
  db.execute("ALTER TABLE experiment_cell ADD COLUMN label TEXT NOT NULL DEFAULT ''");
  db.execute("ALTER TABLE experiment_cell ADD COLUMN position INTEGER NOT NULL DEFAULT 0");
  db.execute("PRAGMA user_version = 3");
  transaction.commit();
}

// Of a version that lacks tables alone, which add_missing makes: 3 knew no likelihoods of texts, 5 neither attempts nor
// conflicts, 6 no single tokens of texts.
void upgrade_tables(Database& db, int64_t from) {
  Transaction transaction(db);
  if (db.integer("PRAGMA user_version") != from) return;
  db.execute(concat("PRAGMA user_version = ", from + 1));
  transaction.commit();
}

// Version 4 knew encoded tokens alone, and no sizes: add_missing makes their table.
void upgrade_from_4(Database& db) {
  Transaction transaction(db);
  if (db.integer("PRAGMA user_version") != 4) return;
  if (!has_column(db, "sample", "n_encoded_numbers")) {
    db.execute("ALTER TABLE sample ADD COLUMN n_encoded_numbers INTEGER");
    db.execute("ALTER TABLE sample ADD COLUMN recent_bytes INTEGER");
  }
  if (!has_column(db, "cell", "formula")) db.execute("ALTER TABLE cell ADD COLUMN formula TEXT NOT NULL DEFAULT ''");
  db.execute("PRAGMA user_version = 5");
  transaction.commit();
}

// How generations are scored stood in task_json until it left the cell's key.
void split_scoring(Database& db) {
  if (has_column(db, "cell", "scoring_json")) return;
  Transaction transaction(db);
  if (has_column(db, "cell", "scoring_json")) return;  // another process was first
  db.execute("ALTER TABLE cell ADD COLUMN scoring_json TEXT NOT NULL DEFAULT '{}'");
  db.execute(
      "UPDATE cell SET scoring_json = json_patch(CASE WHEN task_json -> '$.choices.scores' IS NULL THEN '{}' ELSE"
      "   json_object('choices', json_object('scores', task_json -> '$.choices.scores')) END,"
      "  json_object('extractors', task_json -> '$.extractors', 'metric', task_json -> '$.metric')),"
      " task_json = json_remove(task_json, '$.choices.scores', '$.extractors', '$.metric')"
      " WHERE json_valid(task_json) AND task_json -> '$.extractors' IS NOT NULL");
  transaction.commit();
}

// Of the file's object of that name; "" where there is none.
std::string sql_in(Database& db, const std::string& name) {
  auto select = db.prepare("SELECT sql FROM main.sqlite_schema WHERE name = ?");
  return select.bind(1, name).step() ? select.text(0) : "";
}

// Until then nobody told what an engine stores.
void add_engine_bytes(Database& db) {
  for (const auto* table : {"sample", "cell_size"}) {
    Transaction transaction(db);
    if (!sql_in(db, table).empty() && !has_column(db, table, "kv_bytes_engine")) {
      db.execute(concat("ALTER TABLE ", table, " ADD COLUMN kv_bytes_engine INTEGER"));
    }
    transaction.commit();
  }
}

// Until then every task was in every table.
void add_min_baseline(Database& db) {
  Transaction transaction(db);
  if (!has_column(db, "experiment_cell", "min_baseline")) {
    db.execute("ALTER TABLE experiment_cell ADD COLUMN min_baseline REAL NOT NULL DEFAULT 0");
  }
  transaction.commit();
}

struct SchemaObject {
  std::string type, name, sql;
};

const std::vector<SchemaObject>& schema_objects() {
  static const auto objects = [] {
    auto whole = schema_in_memory();
    std::vector<SchemaObject> found;
    auto select = whole.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid");
    while (select.step()) found.push_back({select.text(0), select.text(1), select.text(2)});
    return found;
  }();
  return objects;
}

// Tables and views that the schema has gained since the file was made, and views that say something else; other tables
// are left as they are.
void add_missing(Database& db) {
  for (const auto& [type, name, sql] : schema_objects()) {
    const auto lacks = [&, &type = type, &name = name, &sql = sql] {
      const auto there = sql_in(db, name);
      return there.empty() || (type == "view" && there != sql);
    };
    if (!lacks()) continue;
    Transaction transaction(db);
    if (lacks()) {  // another process may have been first
      if (type == "view") db.execute("DROP VIEW IF EXISTS " + name);
      db.execute(sql);
    }
    transaction.commit();
  }
}

// What is read is the schema's views over the file's tables, whatever views the file has under their names: those of an
// earlier version, or a stranger's that say something else or never end.
void use_own_views(Database& db) {
  for (const auto& [type, name, sql] : schema_objects()) {
    if (type == "view") db.execute("CREATE TEMP " + sql.substr(std::strlen("CREATE ")));
    if (type != "table") continue;
    auto select = db.prepare("SELECT type FROM sqlite_schema WHERE name = ?");
    KVC_CHECK(!select.bind(1, name).step() || select.text(0) == type, "results database '", db.path(), "': '", name,
              "' is a ", select.text(0), ", expected a ", type);
  }
  db.execute(std::string(interval_views()));
}

// Of two processes that turn a new file's journal over at once SQLite tells one that it is busy without waiting: both
// hold the lock that the other one needs to be gone. It lets go, and asks again.
void set_journal(Database& db, int wait_ms) {
  const char* statement =
      is_on_shared_file_system(db.path()) ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  for (;;) {
    const int code = sqlite3_exec(db.handle(), statement, nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return;
    if ((code & 0xFF) != SQLITE_BUSY || std::chrono::steady_clock::now() > deadline) db.fail(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void check_folder(const std::filesystem::path& path) {
  check_database_path(path);
  std::error_code unreadable;  // SQLite reports that, with the system's reason
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  KVC_CHECK(std::filesystem::exists(folder, unreadable), "results database '", path.string(), "': there is no folder '",
            folder.string(), "'");
}

}  // namespace

Database schema_in_memory() {
  auto db = Database::open(":memory:", Database::Mode::kReadWrite, 0);
  db.execute("PRAGMA trusted_schema = ON");  // it is our own
  db.execute(std::string(schema_sql()));
  return db;
}

bool has_current_views(Database& db) {
  const auto& objects = schema_objects();
  return std::all_of(objects.begin(), objects.end(), [&](const auto& object) {
    return object.type != "view" || sql_in(db, object.name) == object.sql;
  });
}

ResultStore ResultStore::open(const std::filesystem::path& path, int wait_ms) {
  check_folder(path);
  KVC_CHECK(!is_xz(path), "results database '", path.string(),
            "': it is packed, and only read; to write into it: unxz '", path.string(), "'");
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (::access(folder.c_str(), X_OK) == 0 && ::access(folder.c_str(), W_OK) != 0) {  // SQLite's journals stand there
    throw EnvironmentError(
        concat("results database '", path.string(), "': it cannot be written: the file or its folder is read-only"));
  }
  auto db = Database::open(path, Database::Mode::kReadWrite, wait_ms);
  if (db.is_read_only()) db.fail(SQLITE_READONLY);
  const bool is_new = is_empty(db);
  set_journal(db, wait_ms);
  // A sample costs seconds and a sync milliseconds: no committed sample is lost even when the power goes.
  db.execute("PRAGMA synchronous = FULL");
  if (is_new) {
    create_schema(db);
  } else {
    check_relabelled(db);
    if (db.integer("PRAGMA user_version") == 1) upgrade_from_1(db);
    if (db.integer("PRAGMA user_version") == 2) upgrade_from_2(db);
    if (db.integer("PRAGMA user_version") == 3) upgrade_tables(db, 3);
    if (db.integer("PRAGMA user_version") == 4) upgrade_from_4(db);
    if (db.integer("PRAGMA user_version") == 5) upgrade_tables(db, 5);
    if (db.integer("PRAGMA user_version") == 6) upgrade_tables(db, 6);
    split_scoring(db);
    add_engine_bytes(db);
    add_min_baseline(db);
    add_missing(db);
  }
  use_own_views(db);
  return ResultStore(std::move(db));
}

ResultStore ResultStore::open_readonly(const std::filesystem::path& path, int wait_ms) {
  if (!is_xz(path)) {
    auto store = open_as_it_is(path, wait_ms);
    if (is_up_to_date(store.database())) return store;
  }
  auto folder = std::make_shared<TemporaryFolder>();
  auto store = open_as_it_is(unpacked(path, *folder), wait_ms);
  store.unpacked_in_ = std::move(folder);
  return store;
}

ResultStore ResultStore::open_as_it_is(const std::filesystem::path& path, int wait_ms) {
  check_folder(path);
  std::error_code unreadable;
  KVC_CHECK(std::filesystem::exists(path, unreadable) || unreadable, "results database '", path.string(),
            "': there is no such file");
  auto db = Database::open(path, Database::Mode::kReadOnly, wait_ms);
  KVC_CHECK(!is_empty(db), "results database '", path.string(), "': it has no results");
  use_own_views(db);
  return ResultStore(std::move(db));
}

ResultStore open_store(const std::filesystem::path& path) {
  const auto folder = path.parent_path();
  const bool is_usual = folder.filename() == "results";  // made when it is first needed; another may be mistyped
  std::error_code unreadable;
  const bool is_missing =
      !folder.empty() && std::filesystem::status(folder, unreadable).type() == std::filesystem::file_type::not_found;
  KVC_CHECK(is_usual || !is_missing, "results database '", path.string(), "': there is no folder '", folder.string(),
            "'");
  try {
    if (is_usual) std::filesystem::create_directories(folder);
    return ResultStore::open(path);
  } catch (const std::exception& e) {
    throw EnvironmentError(said_by(e));
  }
}

}  // namespace kvc
