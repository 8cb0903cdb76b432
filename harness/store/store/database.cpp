#include "store/database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>

#include "kvc/check.h"
#include "store/statistics.h"
#include "text/files.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// What a primary result code means to the owner of the file; "" where SQLite's own words are best.
std::string meaning(int code) {
  for (const int refused : {SQLITE_IOERR_WRITE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_FSYNC}) {
    if (code == refused) return "a write was refused (quota, or limit on file size); everything stored before is safe";
  }
  if (code == SQLITE_READONLY_DBMOVED)
    return "it was deleted, moved or replaced while open: run again, to complete the file that is "
           "there now";
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "another process is writing to it, and did not finish in time";
    case SQLITE_FULL:
      return "no space left on the device; everything stored before is safe: free some space and run again";
    case SQLITE_READONLY:
      return "it cannot be written: the file or its folder is read-only";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "it is damaged, or not a SQLite database";
    default:
      return "";
  }
}

// A finished database of the write-ahead log: to read it SQLite would make the log's files, which this folder forbids.
// Nobody else writes it either, or a log would lie there.
bool is_at_rest(const std::filesystem::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code none;
  const auto log_bytes = std::filesystem::file_size(path.string() + "-wal", none);
  if ((!none && log_bytes > 0) || ::access(folder.c_str(), W_OK) == 0) return false;
  return is_write_ahead(path);
}

// file:PATH?how
std::string uri_of(const std::filesystem::path& path, const char* how) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '/') {
      uri += c;
    } else {
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return uri + "?" + how;
}

}  // namespace

void check_database_path(const std::filesystem::path& path) {
  const auto why = path == ":memory:" ? "" : no_file(path);
  KVC_CHECK(why.empty(), "results database ", path_in_quotes(path), ": ", why);
}

bool is_write_ahead(const std::filesystem::path& path) {
  char head[20] = "";  // its byte 18 says how it is written
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  return head[18] == 2;
}

Database::Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle, &sqlite3_close) {}

Database Database::open(const std::filesystem::path& path, Mode mode, int wait_ms) {
  check_database_path(path);
  const bool at_rest = mode == Mode::kReadOnly && is_at_rest(path);
  const bool is_like_uri = path.string().starts_with("file:");
  const int flags = mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const auto name = at_rest ? uri_of(path, "immutable=1") : (is_like_uri ? "./" : "") + path.string();
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_URI, nullptr);
  Database db(path.string(), handle);
  if (code != SQLITE_OK) db.fail(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, wait_ms);
  register_statistics(handle);
  db.execute("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
  return db;
}

void Database::fail(int code) const {
  std::string reason = meaning(code);
  if (reason.empty()) {
    reason = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
    const int system_error = handle_ ? sqlite3_system_errno(handle_.get()) : 0;
    const int primary = code & 0xFF;
    if (system_error != 0 && (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR)) {
      reason += concat(": ", std::strerror(system_error));
    }
  }
  const auto message = concat("results database '", path_, "': ", reason);
  if ((code & 0xFF) == SQLITE_ERROR) throw Error(message);  // the statement is wrong
  throw EnvironmentError(message);
}

void Database::attach(const std::filesystem::path& path, const std::string& name) {
  check_database_path(path);
  prepare("ATTACH ? AS " + name).bind(1, uri_of(path, is_at_rest(path) ? "immutable=1" : "mode=ro")).run();
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

int64_t Database::integer(std::string_view sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Database::text(std::string_view sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : "";
}

bool Database::is_read_only() const { return sqlite3_db_readonly(handle_.get(), "main") == 1; }

void Database::check_in_place() const {
  int has_moved = 0;
  sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
  if (has_moved != 0) fail(SQLITE_READONLY_DBMOVED);
}

Statement::Statement(Database& db, std::string_view sql) : db_(&db), statement_(nullptr, &sqlite3_finalize) {
  const char* end = sql.data() + sql.size();
  const auto compile = [&](const char*& start) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(db.handle(), start, static_cast<int>(end - start), &statement, &start));
    return statement;
  };
  const char* rest = sql.data();
  statement_.reset(compile(rest));
  KVC_CHECK(statement_, "the SQL text is empty");
  while (rest != end) {  // comments and spaces may follow
    decltype(statement_) next(compile(rest), &sqlite3_finalize);
    KVC_CHECK(!next, "one SQL statement at a time; a second one starts after the first ';'");
  }
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) db_->fail(code);
}

Statement& Statement::bind(int index, int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, double value) {
  check(std::isnan(value) ? sqlite3_bind_null(statement_.get(), index)
                          : sqlite3_bind_double(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, const std::string& value) {
  check(sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int index, const Blob& value) {
  check(sqlite3_bind_blob64(statement_.get(), index, value.bytes.data(), value.bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::bind(int index, const std::optional<std::string>& value) {
  if (value) return bind(index, *value);
  check(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

Statement& Statement::bind(int index, const std::optional<int64_t>& value) {
  if (value) return bind(index, *value);
  check(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) db_->fail(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(statement_.get()); }  // its code repeats what the last step said

int Statement::n_columns() const { return sqlite3_column_count(statement_.get()); }
std::string Statement::column_name(int column) const { return sqlite3_column_name(statement_.get(), column); }
int Statement::column_type(int column) const { return sqlite3_column_type(statement_.get(), column); }
bool Statement::is_null(int column) const { return column_type(column) == SQLITE_NULL; }
int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }
bool Statement::is_read_only() const { return sqlite3_stmt_readonly(statement_.get()) != 0; }

int Statement::column(std::string_view name) const {
  for (int i = 0; i < n_columns(); ++i) {
    if (name == sqlite3_column_name(statement_.get(), i)) return i;
  }
  throw Error(concat("the SQL returns no column '", name, "'"));
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const std::string_view text(bytes ? bytes : "",
                              bytes ? static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)) : 0);
  return is_utf8(text) ? std::string(text) : replace_broken_utf8(text);  // SQLite looks at no byte of it
}

Blob Statement::blob(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const auto n = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  return {bytes ? std::string(bytes, n) : std::string()};
}

std::vector<float> Statement::floats(int column) const {
  const auto bytes = blob(column).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Blob little_endian(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  Blob blob{std::string(values.size() * sizeof(float), '\0')};
  std::memcpy(blob.bytes.data(), values.data(), blob.bytes.size());
  return blob;
}

Transaction::Transaction(Database& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }

Transaction::~Transaction() {
  if (open_) sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);  // SQLite may have rolled back itself
}

void Transaction::commit() {
  db_.check_in_place();
  db_.execute("COMMIT");
  open_ = false;
}

}  // namespace kvc
