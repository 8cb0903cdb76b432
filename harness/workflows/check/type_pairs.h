// Every compressor's K with every one's V: which of the two tensors can take fewer bits.
#pragma once

#include <vector>

#include "check/check_tables.h"
#include "wire/compressor_choice.h"

namespace kvc {

// types.size() squared, K's type by K's type; a type with itself stays as it is. Labels: "K: a, V: b".
std::vector<CompressorChoice> type_pairs(const std::vector<CompressorChoice>& types);

// KL and size, a row for each type of K, a column for each type of V; of presets as type_pairs() orders them.
Table pair_table(const ModelFindings& found);

}  // namespace kvc
