// The SQL by which the rows of one table, in the schema `shard`, come into the same table of `main`.
#pragma once

#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

// How far the rows of a table may differ between two computations of the same.
enum class Compared { kYes, kNo };

struct TableColumns {
  std::string name;
  std::vector<std::string> key, compared, all;
};
// compared: columns outside of the key that say the same in each computation of the same.
TableColumns columns_of_table(Database& db, const std::string& table, Compared compared);

// Rows that say something else in the shard, column by column, into temp.found. pairs: "FROM ... WHERE ...", of the
// shard's rows as s and main's as m.
void find_differences(Database& db, const TableColumns& table, const std::string& pairs);

// Rows of the samples in temp.both that one side lacks, and differences of the others.
void compare_rows_of_samples(Database& db, const TableColumns& table);

// "m.key = s.key AND ..."
std::string same_key(const TableColumns& table);

}  // namespace kvc
