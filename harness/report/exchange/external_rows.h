// Writing external_result, each import in one transaction.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "exchange/import.h"
#include "store/database.h"

namespace kvc {

struct ExternalRow {
  std::string source, item, model, method, options, column_name;
  std::optional<double> value;
  std::string note = "";
};

class ExternalRows;

// Puts what `read` finds in one file; where that throws Error, nothing of it, and the file is skipped.
void import_file(Database& db, const std::function<void(ExternalRows&)>& read, Imported& imported);

class ExternalRows {
 public:
  explicit ExternalRows(Database& db);
  void put(const ExternalRow& row);                        // an equal row stays, another value replaces what is there
  std::optional<double> value_of(const ExternalRow& row);  // of the row that has its keys; none where there is no such
  void leave_out(const ExternalRow& row);                  // said by another row; one that is there goes
  void skip(const std::string& why);                       // of a part of the file
  int64_t n_seen() const { return counts_.n_new + counts_.n_changed + counts_.n_equal + counts_.n_left_out; }
  Imported commit();

 private:
  static void bind_keys(Statement& statement, const ExternalRow& row);

  Transaction transaction_;
  Statement old_, insert_, delete_;
  Imported counts_;
};

}  // namespace kvc
