// Who writes into a database now, how far they are, and what each has taken on itself, so that runs share the work.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/database.h"

namespace kvc {

// A row of `run`, its numbers as they were last told.
struct RunRow {
  int64_t id = 0;
  std::string experiment, host;
  int64_t pid = 0;
  double started_at = 0, seen_at = 0;  // seconds since 1970
  int64_t n_done = 0, n_failed = 0, n_total = 0;
  std::optional<double> tokens_per_second, seconds_left;
  std::string doing;
  bool is_alive = false;
};

double seconds_since_1970();

// All runs, live or dead; none of a database that an earlier kvc wrote.
std::vector<RunRow> stored_runs(Database& db);

// Of a sample that has its result, or has failed: nobody needs to wait for it, and this process's attempt at the cell
// has come this far. Within the caller's transaction.
void drop_claim(Database& db, const std::string& cell_key, int64_t sample);

// This process's run of an experiment: a row from its beginning to its end.
class RunStore {
 public:
  // Takes away what dead runs of any experiment left. device: that its models run on, as the experiment says it.
  RunStore(Database& db, const std::string& experiment, const std::string& device = "cpu");
  ~RunStore();  // without end(), its attempts ended by an error
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  // How far it is; written every few seconds at most.
  void tell(const RunRow& row);

  // A row of `attempt` for each of these cells that has none of this run yet. claim() begins those of what it gives.
  void begin(const std::vector<std::string>& cell_keys);
  // How the attempts of cells that still lack samples ended; the others' have ended.
  void end(bool was_interrupted);

  // kMine: this run's from now on. kDone: there is a result, or another run has just failed at it. kTaken: by a run
  // that lives. was_taken: whether the last answer was kTaken.
  // Of one sample for several cells, in one transaction.
  enum class Claim { kMine, kDone, kTaken };
  std::vector<Claim> claim(const std::vector<std::string>& cell_keys, int64_t sample, bool was_taken);

 private:
  void file_attempts();
  Claim claim_one(const std::string& cell_key, int64_t sample, bool was_taken);

  Database& db_;
  int64_t id_ = 0;
  double told_at_ = 0;
  std::string device_;
  std::map<std::string, double> begun_;  // cell to started_at
  std::string outcome_ = "error";
};

}  // namespace kvc
