#include "store/bench_store.h"

namespace kvc {
namespace {

constexpr char kOfPoint[] = " WHERE cell_key = ? AND n_prompt_tokens = ? AND n_new_tokens = ? AND batch = ?";

Statement& bind_point(Statement& statement, const std::string& cell_key, const PointKey& point) {
  return statement.bind(1, cell_key).bind(2, point.n_prompt_tokens).bind(3, point.n_new_tokens).bind(4, point.batch);
}

void insert_repeat(Database& db, const std::string& cell_key, const PointKey& point, int64_t repeat,
                   const RepeatRecord& record) {
  for (const auto& row : record.timings) {
    auto insert = db.prepare(
        "INSERT INTO timing (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat, phase, part, seconds)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    bind_point(insert, cell_key, point).bind(5, repeat).bind(6, row.phase).bind(7, row.part).bind(8, row.seconds).run();
  }
  for (const auto& row : record.memory) {
    auto insert = db.prepare(
        "INSERT INTO memory (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat, part, bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)");
    bind_point(insert, cell_key, point).bind(5, repeat).bind(6, row.part).bind(7, row.bytes).run();
  }
  auto insert = db.prepare(
      "INSERT INTO memory_read (cell_key, n_prompt_tokens, n_new_tokens, batch, repeat, bytes, seconds)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)");
  bind_point(insert, cell_key, point).bind(5, repeat).bind(6, record.read_bytes).bind(7, record.read_seconds).run();
}

}  // namespace

int64_t BenchStore::n_repeats(const std::string& cell_key, const PointKey& point) {
  auto select = db_.prepare(std::string("SELECT count(DISTINCT repeat) FROM timing") + kOfPoint);
  return bind_point(select, cell_key, point).step() ? select.integer(0) : 0;
}

void BenchStore::put_repeats(const std::string& cell_key, const PointKey& point,
                             const std::vector<RepeatRecord>& repeats) {
  Transaction transaction(db_);
  for (const char* table : {"timing", "memory", "memory_read"}) {
    auto clear = db_.prepare(std::string("DELETE FROM ") + table + kOfPoint);
    bind_point(clear, cell_key, point).run();
  }
  for (size_t i = 0; i < repeats.size(); ++i) {
    insert_repeat(db_, cell_key, point, static_cast<int64_t>(i), repeats[i]);
  }
  transaction.commit();
}

std::optional<int64_t> BenchStore::find_capacity(const std::string& cell_key, const CapacityRecord& row) {
  auto select = db_.prepare(
      "SELECT value FROM capacity WHERE cell_key = ? AND kind = ? AND how = ? AND limit_bytes = ? AND n_tokens = ?");
  select.bind(1, cell_key).bind(2, row.kind).bind(3, row.how).bind(4, row.limit_bytes).bind(5, row.n_tokens);
  return select.step() ? std::optional(select.integer(0)) : std::nullopt;
}

void BenchStore::put_capacities(const std::string& cell_key, const std::vector<CapacityRecord>& rows) {
  Transaction transaction(db_);
  for (const auto& row : rows) {
    auto insert = db_.prepare("INSERT OR REPLACE INTO capacity VALUES (?, ?, ?, ?, ?, ?)");
    insert.bind(1, cell_key).bind(2, row.kind).bind(3, row.how).bind(4, row.limit_bytes).bind(5, row.n_tokens);
    insert.bind(6, row.value).run();
  }
  transaction.commit();
}

}  // namespace kvc
