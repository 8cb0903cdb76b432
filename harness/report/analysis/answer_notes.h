// What a table of accuracies must say where they measure how answers are written instead of what they say.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

// Of these cells, one note per model and task at most of each kind: that most answers of the baseline (what is not
// lossy, else what has the most bits) were ended by a limit; that extractors whose scores are 0 or 1 differ by more
// than 10 points on the same answers. Answers are generated: what is scored or chosen by likelihood has no such note.
std::vector<std::string> answer_notes(Database& db, const std::set<std::string>& cell_keys);

}  // namespace kvc
