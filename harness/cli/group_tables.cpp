#include "cli/group_tables.h"

#include "analysis/group_table.h"
#include "experiment/paths.h"
#include "task/task_groups.h"
#include "task/task_spec.h"

namespace kvc {

Table groups_of(Database& db, const SummaryOptions& options) {
  const auto folder = find_paths().root / "tasks";
  std::vector<std::string> tasks;
  for (const auto& id : find_tasks(folder)) tasks.push_back(id.name());
  std::vector<ScoreGroup> groups;
  for (const auto& group : load_task_groups(folder / "groups.yaml", tasks)) {
    std::vector<ScoreGroup::Member> members;
    for (const auto& member : group.members) members.push_back({member.name, member.is_group});
    groups.push_back({group.name, group.mean == TaskGroup::Mean::kSamples, members, group.score, group.is_perplexity});
  }
  return group_table(db, options, groups);
}

}  // namespace kvc
