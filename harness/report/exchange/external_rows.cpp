#include "exchange/external_rows.h"

#include <cmath>
#include <limits>

#include "kvc/check.h"
#include "text/message.h"

namespace kvc {

void Imported::add(const Imported& other) {
  n_new += other.n_new, n_changed += other.n_changed, n_equal += other.n_equal;
  n_left_out += other.n_left_out;
  skipped.insert(skipped.end(), other.skipped.begin(), other.skipped.end());
}

void import_file(Database& db, const std::function<void(ExternalRows&)>& read, Imported& imported) {
  try {
    ExternalRows rows(db);
    read(rows);
    imported.add(rows.commit());
  } catch (const EnvironmentError&) {  // the database's
    throw;
  } catch (const Error& e) {
    imported.skipped.push_back(one_line(e.what()));
  }
}

ExternalRows::ExternalRows(Database& db)
    : transaction_(db),
      old_(db.prepare(
          "SELECT value, note FROM external_result WHERE source = ? AND item = ? AND model = ? AND method = ?"
          " AND options = ? AND column_name = ?")),
      insert_(db.prepare("INSERT OR REPLACE INTO external_result VALUES (?, ?, ?, ?, ?, ?, ?, '', ?)")),
      delete_(db.prepare("DELETE FROM external_result WHERE source = ? AND item = ? AND model = ? AND method = ?"
                         " AND options = ? AND column_name = ?")) {}

void ExternalRows::bind_keys(Statement& statement, const ExternalRow& row) {
  const std::string* keys[] = {&row.source, &row.item, &row.model, &row.method, &row.options, &row.column_name};
  for (int i = 0; i < 6; ++i) statement.bind(i + 1, *keys[i]);
}

std::optional<double> ExternalRows::value_of(const ExternalRow& row) {
  bind_keys(old_, row);
  const auto value = old_.step() && !old_.is_null(0) ? std::optional(old_.real(0)) : std::nullopt;
  old_.reset();
  return value;
}

void ExternalRows::leave_out(const ExternalRow& row) {
  bind_keys(delete_, row);
  delete_.run();
  delete_.reset();
  ++counts_.n_left_out;
}

void ExternalRows::skip(const std::string& why) { counts_.skipped.push_back(one_line(in_one_line(why))); }

void ExternalRows::put(const ExternalRow& row) {
  bind_keys(old_, row);
  const bool is_there = old_.step();
  const auto old_value = is_there && !old_.is_null(0) ? std::optional(old_.real(0)) : std::nullopt;
  const bool is_equal = is_there && old_value == row.value && old_.text(1) == row.note;
  old_.reset();
  if (is_equal) {
    ++counts_.n_equal;
    return;
  }
  bind_keys(insert_, row);
  insert_.bind(7, row.value.value_or(std::numeric_limits<double>::quiet_NaN()));  // NaN becomes NULL
  insert_.bind(8, row.note);
  insert_.run();
  insert_.reset();
  ++(is_there ? counts_.n_changed : counts_.n_new);
}

Imported ExternalRows::commit() {
  transaction_.commit();
  return counts_;
}

}  // namespace kvc
