// A compressor with its options on one model: the cells of a database that belong in one row, and how users name them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

struct CellGroup {
  std::string model, plugin, plugin_sha256;
  std::string options;  // for tables
  std::string options_json;
  std::string generation_json;               // without what is the task's own: max_new_tokens, stop
  std::map<std::string, std::string> cells;  // task -> cell key
  std::string label() const { return options.empty() ? plugin : plugin + " " + options; }
};

struct GroupFilter {
  std::string experiment = "all";  // a name, or "all"
  std::string model, task;         // "": any
  bool with_suspects = false;
};

// In the order of `kvc table`. A second cell of the same task and variant starts a group of its own. Suspect cells that
// were left out are named in `notes`. Throws Error naming the known experiments, models or tasks.
std::vector<CellGroup> read_groups(Database& db, const GroupFilter& filter, std::vector<std::string>& notes);

// "key=value ...": the settings for generation, or else the plugin's binary, by which `group` differs from others of
// its model and label, "none" where only others have it; "" where there are none.
std::string settings_apart(const std::vector<CellGroup>& groups, const CellGroup& group);

// The groups that `pattern` names: a label as tables print it, or "PLUGIN [key=value]..." where a key is an option,
// a generation setting ("none": it has none of that key), or plugin_sha256 (its beginning). At most one for each model;
// throws Error with the known names where none fits, and with what tells them apart where several do.
std::vector<const CellGroup*> find_groups(const std::vector<CellGroup>& groups, const std::string& pattern);

}  // namespace kvc
