// What a compressor is called among others: by the options that differ.
#pragma once

#include <string>
#include <vector>

#include "render/table.h"
#include "store/database.h"

namespace kvc {

// "bits 2, group_size 32" as its options. A composition, which names those of several plugins, is one.
std::vector<std::string> options_of(const std::string& label);

// For people, of a table with the columns `compressor` and `options`: what all rows of a compressor have goes into a
// note, and the column goes where nothing is left. Bits stay unless a column has them.
void share_options(Table& table);

// In the table `entry` (analysis/entries.h) compressors without a label of their own are called "kivi bits 2" where
// nothing else differs between those of the plugin.
void shorten_labels(Database& db);

}  // namespace kvc
