// A compressor with its options on one model: the cells of a database that belong in one row, and how users name them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "store/database.h"

namespace kvc {

struct CellGroup {
  std::string model_label, plugin, plugin_sha256;
  std::string options;  // for tables
  std::string given;    // the label that its experiment gives it, or nothing
  std::string options_json;
  std::string settings_json, chat_json;      // v_cell's; of tasks without a chat frame, too, where one has it
  std::map<std::string, std::string> cells;  // task -> cell key
  std::set<std::string> without_frame;       // its tasks that have none
  void add_frame(const std::string& task, const std::string& chat);  // chat: v_cell.chat_json
  std::string generation_json() const;                               // settings and chat as one object
  std::string label() const { return options.empty() ? plugin : plugin + " " + options; }
  std::string name() const { return given.empty() ? label() : given; }
};

// Whether they may stand for one compressor in two databases.
bool same_compressor(const CellGroup& a, const CellGroup& b);

// "tasks without a chat frame: a, b; the others with chatml", or nothing: what a row's cells differ in.
std::string frames_note(const std::vector<CellGroup>& groups);

struct GroupFilter {
  std::string experiment = "all";  // a name, or "all"
  std::string model_label;         // "": any
  std::vector<std::string> tasks;  // names, what names begin with, or patterns, as of experiments; none: any
  bool with_suspects = false;
};

// In the order of `kvc table`, as rows_of says. Suspect cells that were left out are named in `notes`. Throws Error
// naming the known experiments, models or tasks.
std::vector<CellGroup> read_groups(Database& db, const GroupFilter& filter, std::vector<std::string>& notes);

// "key=value ...": the settings for generation, or else the plugin's binary, by which `group` differs from others of
// its model and label, "none" where only others have it; "" where there are none.
std::string settings_apart(const std::vector<CellGroup>& groups, const CellGroup& group);

// The groups that `pattern` names: a label as an experiment gives it or tables print it, or "PLUGIN [key=value]..."
// where a key is an option, a generation setting ("none": it has none of that key), or plugin_sha256 (its beginning).
// At most one for each model; throws Error with the known names where none fits, and with what tells them apart where
// several do.
std::vector<const CellGroup*> find_groups(const std::vector<CellGroup>& groups, const std::string& pattern);

}  // namespace kvc
