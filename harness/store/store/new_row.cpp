#include "store/new_row.h"

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {

NewRow& NewRow::set(std::string column, Value value) {
  columns_.push_back(std::move(column));
  values_.push_back(std::move(value));
  return *this;
}

void NewRow::insert(Database& db, const std::string& conflict) const {
  const std::vector<std::string> places(columns_.size(), "?");
  auto statement =
      db.prepare(concat("INSERT INTO ", table_, " (", join(columns_), ") VALUES (", join(places), ") ", conflict));
  for (size_t i = 0; i < values_.size(); ++i) {
    std::visit([&](const auto& value) { statement.bind(static_cast<int>(i) + 1, value); }, values_[i]);
  }
  statement.run();
}

}  // namespace kvc
