// Files that an experiment names beside its model and its data: calibrations, maxima for smoothing, task files, a text.
// A cell's provenance says where they were, so that the cell can be computed again from the database.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "experiment/experiment.h"
#include "experiment/paths.h"
#include "store/database.h"
#include "wire/messages.h"

namespace kvc {

// {absolute path: SHA-256} of those there are; tasks of the project's own folder are found by name and not among them.
nlohmann::json named_files(const Experiment& experiment, const WorkerSetUp& worker,
                           const std::vector<std::filesystem::path>& task_files, const Paths& paths);

class NamedFiles {
 public:
  // Of all that took part in the cell.
  static NamedFiles read(Database& db, const std::string& cell_key);

  // The file of that content. Throws Error naming both hashes where it has another by now or is gone. what:
  // "calibration"
  std::string find(const std::string& what, const std::string& sha256) const;
  bool has(const std::string& sha256) const;
  // The task file that the cell's task of that name was read from, or "": one of the project's own. Throws as find().
  std::string find_task(const std::string& name) const;

 private:
  using Found = std::pair<std::string, std::string>;  // path, SHA-256
  static std::string check(const std::string& what, const std::set<Found>& recorded);
  std::set<Found> files_;
};

}  // namespace kvc
