// What an experiment is now and what it was: its cells, compared.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "store/result_store.h"

namespace kvc {

// The cells that the database has of the experiment's last definition; those of earlier ones are of older_name().
std::vector<CellRecord> stored_cells(Database& db, const std::string& experiment);
std::string older_name(const std::string& experiment);  // "x@older"

struct DefinitionChange {
  std::vector<std::string> fields;  // "kivi.bits: 4 -> 2", "settings.dtype: fp32 -> bf16", "task added: gsm8k/cot8"
  std::set<std::string> replaced;   // keys of earlier cells in whose place, plugin and task, another stands now
  std::set<std::string> gone;       // and of those whose compressor is there no more, of a task that is
  int64_t n_alike = 0, n_only_before = 0, n_only_after = 0;  // cells
};

DefinitionChange definition_change(const std::vector<CellRecord>& before, const std::vector<CellRecord>& after);

// The first few fields on one line; "" where nothing changed.
std::string change_in_words(const DefinitionChange& change);

// How many cells of earlier definitions tables leave out, and how to see them; "" where there are none. experiment: a
// name, or all.
std::string older_note(Database& db, const std::string& experiment);

}  // namespace kvc
