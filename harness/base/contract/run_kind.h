// What an experiment does. Its name is the key `kind` of the file and, but for a search, of the cells in the database.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

// Answers tasks, looks into caches, takes times, finds limits, finds one integer a layer.
enum class RunKind { eval, probe, bench, capacity, search };

inline const std::vector<std::string>& run_kinds() {  // in the order of the enum
  static const std::vector<std::string> kNames{"eval", "probe", "bench", "capacity", "search"};
  return kNames;
}

inline const std::string& to_string(RunKind kind) { return run_kinds().at(static_cast<size_t>(kind)); }

// name: one of run_kinds()
inline RunKind run_kind(const std::string& name) {
  const auto found = std::find(run_kinds().begin(), run_kinds().end(), name);
  KVC_CHECK(found != run_kinds().end(), "unknown kind '", name, "', allowed: eval, probe, bench, capacity, search");
  return static_cast<RunKind>(found - run_kinds().begin());
}

// Of kinds that time a body of their own instead of answering tasks.
inline bool is_timed(RunKind kind) { return kind == RunKind::bench || kind == RunKind::capacity; }

}  // namespace kvc
