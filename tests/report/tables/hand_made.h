// Databases of a few cells, made by hand, and the tables they must give: hand_worked.txt.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "store/result_store.h"
#include "support/temp_folder.h"
#include "tables/paper_table.h"

namespace kvc::test {

struct HandWorked {
  std::string name;                // paper:name
  std::vector<std::string> cells;  // their lines
  std::vector<std::string> sql;
  std::vector<std::string> lines;  // of the table, without padding

  friend void PrintTo(const HandWorked& section, std::ostream* out) { *out << section.name; }
};

std::vector<HandWorked> hand_worked();
HandWorked hand_worked(const std::string& name);

// A database in a folder of its own that goes with this object.
class HandMade {
 public:
  explicit HandMade(const HandWorked& section);

  Database& db() { return store_->database(); }
  const std::vector<std::string>& experiments() const { return experiments_; }
  // The section's table, judged as `kvc table` does.
  PaperTable table();

 private:
  std::string name_;
  TempFolder folder_;
  std::optional<ResultStore> store_;
  std::vector<std::string> experiments_;
};

std::filesystem::path tables_folder();  // results/tables
// The lines of a Markdown table without padding, title, rule and notes.
std::vector<std::string> without_padding(const std::string& markdown);

}  // namespace kvc::test
