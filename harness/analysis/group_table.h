// Scores of groups of tasks: means over samples, over tasks, and over other groups.
#pragma once

#include <string>
#include <vector>

#include "analysis/summary.h"
#include "render/table.h"
#include "store/database.h"

namespace kvc {

struct ScoreGroup {
  struct Member {
    std::string name;  // a task's, or that of a group before this one
    bool is_group = false;
  };
  std::string name;
  bool over_samples = false;  // each sample counts once; else each member
  std::vector<Member> members;
  std::string score;           // "" for each task's headline
  bool is_perplexity = false;  // exp(-mean) instead of percent
};

// One row a compressor, one column a group that has a score; a mean of which members are missing says of how many it
// is. Cells that are suspect count as missing, unless asked for. Without such a column the table is empty.
Table group_table(Database& db, const SummaryOptions& options, const std::vector<ScoreGroup>& groups);

}  // namespace kvc
