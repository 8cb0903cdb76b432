#include "run/put_cells.h"

#include <algorithm>
#include <cstdio>

#include "analysis/definition_change.h"

namespace kvc {

void put_cells(const std::vector<const CellRecord*>& cells, const std::string& experiment, const ConfigFile& config,
               ResultStore& store, bool is_part) {
  const auto before = stored_cells(store.database(), experiment);
  std::vector<CellRecord> after;
  for (const auto* cell : cells) after.push_back(*cell);
  const auto change = definition_change(before, after);
  const bool is_whole = !is_part && std::all_of(config.overrides.begin(), config.overrides.end(),
                                                [](const auto& override) { return override.starts_with("limit="); });
  auto aside = change.replaced;
  if (is_whole) aside.insert(change.gone.begin(), change.gone.end());
  if (!before.empty() && !aside.empty()) {
    std::fprintf(stderr, "experiment %s changed since it was run into this database: %s\n", experiment.c_str(),
                 change_in_words(change).c_str());
    store.put_aside(experiment, aside);
  }
  for (const auto* cell : cells) store.put_cell(*cell);
}

}  // namespace kvc
