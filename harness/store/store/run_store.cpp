#include "store/run_store.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr double kTellSeconds = 2;      // between two words of how far it is
constexpr double kSilentSeconds = 120;  // after which a run of another machine is taken for dead

// Where process numbers mean what they mean here.
struct Place {
  std::string host, place;
};

std::string first_word(const char* file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

Place this_place() {
  utsname system{};
  ::uname(&system);
  std::error_code none;
  return {system.nodename, first_word("/proc/sys/kernel/random/boot_id") + " " +
                               std::filesystem::read_symlink("/proc/self/ns/pid", none).string()};
}

// Clock ticks since the boot; 0: there is no such process, or it has ended and waits for its parent.
int64_t process_start(int64_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  for (int i = 4; i <= 21; ++i) fields >> skipped;
  int64_t start = 0;
  fields >> start;
  return state == "Z" || state == "X" ? 0 : start;
}

bool has_runs(Database& db) {
  return db.integer("SELECT count(*) FROM sqlite_schema WHERE name IN ('run', 'claim')") == 2;
}

bool has_result(Database& db, const std::string& cell_key, int64_t sample) {
  auto select = db.prepare(
      "SELECT 1 FROM sample WHERE cell_key = ?1 AND sample = ?2 AND (status = 'ok' OR stop_reason <> '')"
      " UNION ALL SELECT 1 FROM probe WHERE cell_key = ?1 AND sample = ?2 LIMIT 1");
  return select.bind(1, cell_key).bind(2, sample).step();
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<RunRow> stored_runs(Database& db) {
  std::vector<RunRow> rows;
  if (!has_runs(db)) return rows;
  const auto here = this_place();
  auto select = db.prepare(
      "SELECT id, experiment, host, pid, started_at, seen_at, n_done, n_failed, n_total, tokens_per_second,"
      " seconds_left, doing, place, process_start FROM run ORDER BY id");
  while (select.step()) {
    RunRow row;
    row.id = select.integer(0), row.experiment = select.text(1), row.host = select.text(2), row.pid = select.integer(3);
    row.started_at = select.real(4), row.seen_at = select.real(5);
    row.n_done = select.integer(6), row.n_failed = select.integer(7), row.n_total = select.integer(8);
    if (!select.is_null(9)) row.tokens_per_second = select.real(9);
    if (!select.is_null(10)) row.seconds_left = select.real(10);
    row.doing = select.text(11);
    const bool is_here = row.host == here.host && select.text(12) == here.place;
    row.is_alive =
        is_here ? process_start(row.pid) == select.integer(13) : seconds_since_1970() - row.seen_at < kSilentSeconds;
    rows.push_back(std::move(row));
  }
  return rows;
}

void drop_claim(Database& db, const std::string& cell_key, int64_t sample) {
  db.prepare("DELETE FROM claim WHERE cell_key = ? AND sample = ?").bind(1, cell_key).bind(2, sample).run();
  db.prepare(
        "UPDATE attempt SET ended_at = ?4 WHERE cell_key = ?1 AND host = ?2 AND pid = ?3 AND started_at ="
        " (SELECT max(started_at) FROM attempt WHERE cell_key = ?1 AND host = ?2 AND pid = ?3)")
      .bind(1, cell_key)
      .bind(2, this_place().host)
      .bind(3, int64_t{::getpid()})
      .bind(4, seconds_since_1970())
      .run();
}

RunStore::RunStore(Database& db, const std::string& experiment, const std::string& device) : db_(db), device_(device) {
  Transaction transaction(db_);
  for (const auto& row : stored_runs(db_)) {
    if (!row.is_alive) db_.prepare("DELETE FROM run WHERE id = ?").bind(1, row.id).run();
  }
  const auto here = this_place();
  const double now = seconds_since_1970();
  auto insert = db_.prepare(
      "INSERT INTO run (experiment, host, place, pid, process_start, started_at, seen_at, n_done, n_failed, n_total,"
      " doing) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 'beginning') RETURNING id");
  insert.bind(1, experiment).bind(2, here.host).bind(3, here.place).bind(4, int64_t{::getpid()});
  insert.bind(5, process_start(::getpid())).bind(6, now).bind(7, now).step();
  id_ = insert.integer(0);
  insert.step();
  transaction.commit();
}

RunStore::~RunStore() {
  try {
    file_attempts();
    db_.prepare("DELETE FROM run WHERE id = ?").bind(1, id_).run();
  } catch (const std::exception&) {  // the file is gone, or full: whoever looks finds this process dead
  }
}

void RunStore::begin(const std::vector<std::string>& cell_keys) {
  const double now = seconds_since_1970();
  for (const auto& key : cell_keys) {
    if (!begun_.emplace(key, now).second) continue;
    db_.prepare("INSERT INTO attempt SELECT key, ?2, ?3, ?4, ?5, ?2, NULL FROM cell WHERE key = ?1")
        .bind(1, key)
        .bind(2, now)
        .bind(3, this_place().host)
        .bind(4, int64_t{::getpid()})
        .bind(5, device_)
        .run();
  }
}

void RunStore::end(bool was_interrupted) { outcome_ = was_interrupted ? "interrupted" : "ended"; }

// Of a cell that has all its samples what came after does not matter.
void RunStore::file_attempts() {
  Transaction transaction(db_);
  auto update = db_.prepare(
      "UPDATE attempt SET outcome = CASE WHEN (SELECT kind = 'eval' AND n_samples <= (SELECT count(*) FROM sample WHERE"
      " sample.cell_key = key) FROM cell WHERE key = ?1) THEN 'ended' ELSE ?5 END"
      " WHERE cell_key = ?1 AND started_at = ?2 AND host = ?3 AND pid = ?4");
  for (const auto& [key, started_at] : begun_) {
    update.bind(1, key).bind(2, started_at).bind(3, this_place().host).bind(4, int64_t{::getpid()});
    update.bind(5, outcome_).run();
    update.reset();
  }
  transaction.commit();
}

void RunStore::tell(const RunRow& row) {
  const double now = seconds_since_1970();
  if (now - told_at_ < kTellSeconds) return;
  told_at_ = now;
  const double nothing = std::nan("");  // is stored as NULL
  auto update = db_.prepare(
      "UPDATE run SET seen_at = ?, n_done = ?, n_failed = ?, n_total = ?, tokens_per_second = ?, seconds_left = ?,"
      " doing = ? WHERE id = ?");
  update.bind(1, now).bind(2, row.n_done).bind(3, row.n_failed).bind(4, row.n_total);
  update.bind(5, row.tokens_per_second.value_or(nothing)).bind(6, row.seconds_left.value_or(nothing));
  update.bind(7, row.doing).bind(8, id_).run();
}

std::vector<RunStore::Claim> RunStore::claim(const std::vector<std::string>& cell_keys, int64_t sample,
                                             bool was_taken) {
  Transaction transaction(db_);
  std::vector<Claim> claims;
  std::vector<std::string> mine;
  for (const auto& key : cell_keys) {
    claims.push_back(claim_one(key, sample, was_taken));
    if (claims.back() == Claim::kMine) mine.push_back(key);
  }
  begin(mine);
  transaction.commit();
  return claims;
}

RunStore::Claim RunStore::claim_one(const std::string& cell_key, int64_t sample, bool was_taken) {
  if (has_result(db_, cell_key, sample)) return Claim::kDone;
  auto select = db_.prepare("SELECT run_id FROM claim WHERE cell_key = ? AND sample = ?");
  select.bind(1, cell_key).bind(2, sample);
  if (select.step()) {
    const auto owner = select.integer(0);
    if (owner == id_) return Claim::kMine;
    for (const auto& row : stored_runs(db_)) {
      if (row.id == owner && row.is_alive) return Claim::kTaken;
    }
  } else if (was_taken) {
    auto failed = db_.prepare("SELECT 1 FROM sample WHERE cell_key = ? AND sample = ? AND status = 'failed'");
    if (failed.bind(1, cell_key).bind(2, sample).step()) return Claim::kDone;
  }
  select.reset();
  db_.prepare("INSERT INTO claim VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET run_id = excluded.run_id")
      .bind(1, cell_key)
      .bind(2, sample)
      .bind(3, id_)
      .run();
  return Claim::kMine;
}

}  // namespace kvc
