// A results database while a run writes to it, and runs that are killed on their way.
#pragma once

#include <signal.h>

#include <chrono>
#include <random>
#include <thread>

#include "kvc/check.h"
#include "store/result_store.h"
#include "support/program.h"
#include "support/stable_dump.h"

namespace kvc::test {

constexpr char kFullAndKivi[] = "  - full\n  - kivi: {bits: 2, group_size: 32, recent: 32}\n";

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string dump(const std::filesystem::path& database) {
  auto store = ResultStore::open_readonly(database);
  return stable_dump(store.database());
}

inline int64_t n_rows(const std::filesystem::path& database, const std::string& table) {
  if (!std::filesystem::exists(database)) return 0;
  try {
    return ResultStore::open_readonly(database).database().integer("SELECT count(*) FROM " + table);
  } catch (const Error&) {  // it is just being made
    return 0;
  }
}
inline int64_t n_samples(const std::filesystem::path& database) { return n_rows(database, "sample"); }

// At most a minute.
inline void wait_for_rows(const std::filesystem::path& database, const std::string& table, int64_t n) {
  for (int i = 0; i < 12000 && n_rows(database, table) < n; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Starts the command again and again, and kills it a moment after the table has come to each of these numbers of rows.
// Returns the rows that each kill left; -1 where the command had ended before.
inline std::vector<int64_t> kill_at_rows(const TempFolder& folder, const std::vector<std::string>& arguments,
                                         const std::filesystem::path& database, const std::string& table,
                                         const std::vector<int64_t>& numbers) {
  std::mt19937 random(20);  // the moments differ from run to run with the machine's speed, the seed does not
  std::uniform_int_distribution<int> moment(0, 20'000);
  std::vector<int64_t> left;
  for (const int64_t n : numbers) {
    Program program(folder, arguments);
    wait_for_rows(database, table, n);
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    program.kill();
    const bool killed = program.wait().signal == SIGKILL;
    left.push_back(killed ? n_rows(database, table) : -1);
  }
  return left;
}

}  // namespace kvc::test
