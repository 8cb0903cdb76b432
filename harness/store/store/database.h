// A thin owner of one SQLite connection and its statements. Errors name the file and the way out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace kvc {

class Database;

struct Blob {
  std::string bytes;
};
Blob little_endian(const std::vector<float>& values);  // 4 bytes each

// A compiled statement. Parameters are numbered from 1, columns from 0. Must not outlive nor see its Database moved.
class Statement {
 public:
  Statement(Database& db, std::string_view sql);  // throws Error when `sql` holds more than one statement

  Statement& bind(int index, int64_t value);
  Statement& bind(int index, double value);  // NaN becomes NULL
  Statement& bind(int index, const std::string& value);
  Statement& bind(int index, const Blob& value);
  Statement& bind(int index, const std::optional<std::string>& value);
  Statement& bind(int index, const std::optional<int64_t>& value);

  bool step();   // true: a row is there
  void run();    // steps to the end
  void reset();  // ready to be bound and run again

  int n_columns() const;
  std::string column_name(int column) const;
  int column(std::string_view name) const;  // throws Error where it returns none of that name
  int column_type(int column) const;        // SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB, SQLITE_NULL
  bool is_null(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  Blob blob(int column) const;
  std::vector<float> floats(int column) const;  // of a blob of little_endian()
  bool is_read_only() const;

 private:
  void check(int code) const;
  Database* db_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement_;
};

class Database {
 public:
  enum class Mode { kReadOnly, kReadWrite };  // kReadWrite creates the file
  // A file in a folder that may not be written, beside which no log waits, is read without a log's files.
  // Opens and registers wilson_low, wilson_high and median; waits up to `wait_ms` for another writer.
  static Database open(const std::filesystem::path& path, Mode mode, int wait_ms);

  // A file of the write-ahead log as the schema `name`, for reading.
  void attach(const std::filesystem::path& path, const std::string& name);

  void execute(const std::string& sql);  // one or more statements without results
  Statement prepare(std::string_view sql) { return Statement(*this, sql); }
  int64_t integer(std::string_view sql);  // the first column of the first row; 0 without rows
  std::string text(std::string_view sql);
  bool is_read_only() const;
  void check_in_place()
      const;  // throws EnvironmentError where the file was deleted, moved or replaced since it was opened

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }
  // Throws Error: the file, what SQLite said, and what it means here.
  [[noreturn]] void fail(int code) const;

 private:
  Database(std::string path, sqlite3* handle);
  std::string path_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
};

// Throws Error where the path is a pipe, device, socket or folder, or none that a file can have: SQLite would wait for
// a pipe's other end, and cut a name at a NUL.
void check_database_path(const std::filesystem::path& path);

// Whether the file is written by the write-ahead log: readers and its writer do not wait for each other.
bool is_write_ahead(const std::filesystem::path& path);

// BEGIN IMMEDIATE ... COMMIT; rolls back when it is left without commit(), which refuses to write into a file that is
// no longer at its path.
class Transaction {
 public:
  explicit Transaction(Database& db);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& db_;
  bool open_ = true;
};

}  // namespace kvc
