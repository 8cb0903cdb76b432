#pragma once

#include "store/result_store.h"

namespace kvc {

// The scores of a sample that has none, the first one its headline.
void insert_scores(Database& db, const std::string& cell_key, int64_t sample, const std::vector<ScoreRow>& scores);

}  // namespace kvc
