// Which cells share a row of a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace kvc {

// Indices of cells (with .plugin, .variant, .task and .chat), row by row in the order of their first cells. A row has
// one cell a task, all of one plugin and variant; those whose prompt is a user's turn, too, in their chat frame. What
// is no turn has no frame, and stands in the rows of all frames. A second cell of the same task starts a row of its
// own.
template <class Cell>
std::vector<std::vector<size_t>> rows_of(const std::vector<Cell>& cells) {
  std::vector<std::vector<size_t>> rows;  // each begins with a cell of its frame, if it has one
  for (const bool of_turns : {true, false}) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].chat.empty() == of_turns) continue;
      std::set<std::string> frames;  // of the rows that it stands in
      for (auto& row : rows) {
        const auto& first = cells[row.front()];
        const auto has_task = [&](size_t other) { return cells[other].task == cells[i].task; };
        if (first.plugin != cells[i].plugin || first.variant != cells[i].variant ||
            (of_turns && (!frames.empty() || first.chat != cells[i].chat)) ||
            std::any_of(row.begin(), row.end(), has_task) || !frames.insert(first.chat).second) {
          continue;
        }
        row.push_back(i);
      }
      if (frames.empty()) rows.push_back({i});
    }
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  std::stable_sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace kvc
