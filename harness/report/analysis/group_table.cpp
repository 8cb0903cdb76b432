#include "analysis/group_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "analysis/query.h"
#include "analysis/rows_of.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"

namespace kvc {
namespace {

struct Sum {
  double value = 0;
  int64_t n = 0;
};

using Sums = std::map<std::string, Sum>;  // by score; "" is the headline's name

struct ScoredCell {
  std::string key, plugin, options, variant, task, chat;
  Sums sums;
};

// One compressor's scores by task.
struct Row {
  std::string plugin, options;
  std::map<std::string, Sums> tasks;
};

std::vector<ScoredCell> read_cells(Database& db, const SummaryOptions& options) {
  auto select = db.prepare(table_sql("groups"));
  select.bind(1, options.experiment);
  const auto text = [&](const char* column) { return select.text(select.column(column)); };
  std::vector<ScoredCell> cells;
  while (select.step()) {
    const auto key = text("key");
    if (!options.cell_keys.empty() && !options.cell_keys.contains(key)) continue;
    if (!options.with_suspects && !text("suspect").empty()) continue;
    if (cells.empty() || cells.back().key != key) {
      cells.push_back({key, text("plugin"), text("options"), text("variant"), text("task"), text("chat_json"), {}});
    }
    const Sum sum{select.real(select.column("sum_value")), select.integer(select.column("n"))};
    cells.back().sums.emplace(text("extractor"), sum);
    if (select.integer(select.column("position")) == 0) cells.back().sums.emplace("", sum);
  }
  return cells;
}

std::vector<Row> gather(const std::vector<ScoredCell>& cells) {
  std::vector<Row> rows;
  for (const auto& members : rows_of(cells)) {
    const auto& first = cells[members.front()];
    auto& row = rows.emplace_back(Row{first.plugin, first.options, {}});
    for (const size_t i : members) row.tasks.emplace(cells[i].task, cells[i].sums);
  }
  return rows;
}

// A mean and of how many of its tasks it is; of none, it has no value.
struct Mean {
  double value = 0;
  size_t n_there = 0, n_members = 0;
};

std::optional<Sum> task_sum(const Row& row, const std::string& task, const std::string& score) {
  const auto found = row.tasks.find(task);
  if (found == row.tasks.end()) return std::nullopt;
  const auto sum = found->second.find(score);
  return sum == found->second.end() || sum->second.n == 0 ? std::nullopt : std::optional(sum->second);
}

Mean mean_of(const Row& row, const TaskGroup& group, const std::map<std::string, Mean>& above) {
  Mean mean;
  double total = 0, weight = 0;
  for (const auto& member : group.members) {
    if (member.is_group) {
      const auto& group_above = above.at(member.name);
      mean.n_members += group_above.n_members;
      mean.n_there += group_above.n_there;
      if (group_above.n_there == 0) continue;
      total += group_above.value;
      weight += 1;
      continue;
    }
    ++mean.n_members;
    const auto sum = task_sum(row, member.name, group.score);
    if (!sum) continue;
    ++mean.n_there;
    const auto n = static_cast<double>(sum->n);
    const bool over_samples = group.mean == TaskGroup::Mean::kSamples;
    total += over_samples ? sum->value : sum->value / n;
    weight += over_samples ? n : 1;
  }
  if (mean.n_there > 0) mean.value = total / weight;
  return mean;
}

std::string text_of(const Mean& mean, bool is_perplexity) {
  char text[64];
  const double shown = is_perplexity ? std::exp(-mean.value) : 100 * mean.value;
  constexpr double kMostInDigits = 1e6;
  std::snprintf(text, sizeof text, shown < kMostInDigits ? "%.2f" : "%.3g", shown);
  if (mean.n_there == mean.n_members) return text;
  return text + concat(" (", mean.n_there, " of ", mean.n_members, ")");
}

// What each row shows of a group.
std::vector<std::string> column_of(const std::vector<std::map<std::string, Mean>>& means, const TaskGroup& group) {
  std::vector<std::string> cells;
  for (const auto& row : means) {
    const auto& mean = row.at(group.name);
    cells.push_back(mean.n_there == 0 ? "" : text_of(mean, group.is_perplexity));
  }
  return cells;
}

}  // namespace

Table group_table(Database& db, const SummaryOptions& options, const std::vector<TaskGroup>& groups) {
  const auto scored = read_cells(db, options);
  std::set<std::string> keys;
  for (const auto& cell : scored) keys.insert(cell.key);
  const auto rows = gather(scored);
  std::vector<std::map<std::string, Mean>> means(rows.size());
  std::vector<bool> is_shown(groups.size(), false);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const auto mean = mean_of(rows[r], groups[g], means[r]);
      means[r][groups[g].name] = mean;
      is_shown[g] = is_shown[g] || mean.n_there > 0;
    }
  }
  Table table;
  table.title = with_note("groups of tasks", weights_note(db, keys));
  table.columns = {{"compressor"}, {"options"}};
  for (const auto& row : rows) table.rows.push_back({row.plugin, row.options});
  table.notes = {"(a of b): mean over the a tasks of b that have a score"};
  std::map<std::vector<std::string>, std::string> columns;  // of the same numbers, the first
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<std::string> cells;
    if (is_shown[g]) cells = column_of(means, groups[g]);
    if (cells.empty()) continue;
    const auto [same, is_first] = columns.emplace(cells, groups[g].name);
    if (!is_first) {
      table.notes.push_back(concat(groups[g].name, ": the same as ", same->second));
      continue;
    }
    table.columns.push_back({groups[g].name, TableColumn::Align::kRight, groups[g].is_perplexity ? "" : "%"});
    for (size_t r = 0; r < rows.size(); ++r) table.rows[r].emplace_back(cells[r]);
  }
  if (table.columns.size() == 2) return {.title = table.title, .columns = table.columns, .rows = {}, .notes = {}};
  return table;
}

}  // namespace kvc
