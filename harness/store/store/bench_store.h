// Times, peaks and capacities in the results database. The repeats of a point are one transaction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/result_store.h"

namespace kvc {

struct PointKey {
  int64_t n_prompt_tokens = 0, n_new_tokens = 0, batch = 1;
};

// One repeat; results/schema.sql says what phases and parts there are.
struct RepeatRecord {
  struct Timing {
    std::string phase, part;
    double seconds = 0;
  };
  struct Memory {
    std::string part;
    int64_t bytes = 0;
  };
  std::vector<Timing> timings;
  std::vector<Memory> memory;
  int64_t read_bytes = 0;  // that memory gave in read_seconds, and nothing else was done
  double read_seconds = 0;
};

struct CapacityRecord {
  std::string kind, how;
  int64_t limit_bytes = 0, n_tokens = 0, value = 0;
};

class BenchStore {
 public:
  explicit BenchStore(ResultStore& store) : db_(store.database()) {}

  int64_t n_repeats(const std::string& cell_key, const PointKey& point);  // that are there
  // In place of those that are there.
  void put_repeats(const std::string& cell_key, const PointKey& point, const std::vector<RepeatRecord>& repeats);

  // The value of a row of that kind, way, limit and length.
  std::optional<int64_t> find_capacity(const std::string& cell_key, const CapacityRecord& row);
  void put_capacities(const std::string& cell_key, const std::vector<CapacityRecord>& rows);  // idempotent

 private:
  Database& db_;
};

}  // namespace kvc
