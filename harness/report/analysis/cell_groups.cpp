#include "analysis/cell_groups.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "analysis/entries.h"
#include "analysis/rows_of.h"
#include "analysis/shared_options.h"
#include "kvc/check.h"
#include "text/json.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr auto kCells =
    "SELECT c.model, c.plugin, c.options, cell.options_json, cell.plugin_sha256, c.task, c.key, c.suspect,"
    "  c.settings_json, c.chat_json,"
    "  (SELECT min(e.label) FROM experiment_cell AS e WHERE e.cell_key = c.key AND e.label <> ''"
    "    AND (?1 = 'all' OR e.experiment = ?1))"
    " FROM v_cell AS c JOIN cell ON cell.key = c.key"
    " WHERE ?1 = 'all' AND c.key NOT IN (SELECT cell_key FROM v_older) OR c.key IN (SELECT cell_key FROM "
    "experiment_cell WHERE experiment = ?1)"
    " ORDER BY c.model, c.is_lossy, c.plugin, c.bits DESC, c.options, c.settings_json, cell.plugin_sha256, c.task, "
    "c.key";

// One cell as it was read.
struct FoundCell {
  CellGroup group;  // its alone
  std::string plugin, variant, task, chat, key;
};

CellGroup group_of(const std::vector<FoundCell>& cells, const std::vector<size_t>& row) {
  auto group = cells[row.front()].group;
  for (const size_t i : row) {
    group.cells.emplace(cells[i].task, cells[i].key);
    group.add_frame(cells[i].task, cells[i].chat);
  }
  return group;
}

void check_known(Database& db, const char* what, const std::string& name, const char* sql) {
  std::vector<std::string> known;
  auto select = db.prepare(sql);
  while (select.step()) known.push_back(select.text(0));
  const bool found = std::find(known.begin(), known.end(), name) != known.end();
  KVC_CHECK(found, "results database '", db.path(), "': ", unknown_name(what, name, known));
}

void check_filter(Database& db, const GroupFilter& filter) {
  if (filter.experiment != "all") check_stored_experiment(db, filter.experiment);
  if (!filter.model_label.empty())
    check_known(db, "model", filter.model_label, "SELECT DISTINCT model FROM cell ORDER BY 1");
}

// Of the database's tasks those that the filter names.
std::set<std::string> tasks_of(Database& db, const GroupFilter& filter) {
  std::vector<std::string> known;
  auto select = db.prepare("SELECT DISTINCT task FROM cell ORDER BY 1");
  while (select.step()) known.push_back(select.text(0));
  if (filter.tasks.empty()) return {known.begin(), known.end()};
  std::set<std::string> all;
  for (const auto& wanted : filter.tasks) {
    std::vector<std::string> found;
    std::copy_if(known.begin(), known.end(), std::back_inserter(found),
                 [&](const std::string& task) { return is_named_by(task, wanted); });
    KVC_CHECK(!found.empty(), "results database '", db.path(), "': ", unknown_name("task", wanted, known));
    all.insert(found.begin(), found.end());
  }
  return all;
}

// A setting as JSON when it reads as such ("2" is a number), else as text.
nlohmann::json value_of(const std::string& text) {
  const auto value = try_json(text);
  return value.is_discarded() ? nlohmann::json(text) : value;
}

nlohmann::json settings_of(const CellGroup& group) {
  auto settings = nlohmann::json::object();
  for (const auto& text : {group.generation_json(), group.options_json}) {  // an option hides a setting of its name
    const auto json = try_json(text);
    if (json.is_object()) settings.update(json);
  }
  return settings;
}

constexpr const char* kNotGiven = "none";  // of a key that a group does not have

struct Pattern {
  std::string plugin;
  std::vector<std::pair<std::string, std::string>> settings;
};

Pattern read_pattern(const std::string& text) {
  Pattern pattern;
  std::istringstream words(text);
  KVC_CHECK(words >> pattern.plugin, "compressor '", text, "': empty, allowed: PLUGIN [key=value]...");
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    KVC_CHECK(equals != std::string::npos && equals > 0, "compressor '", text, "': '", word,
              "' is not key=value; allowed: PLUGIN [key=value]..., or a label as `kvc table` prints it");
    pattern.settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pattern;
}

bool fits(const CellGroup& group, const std::string& key, const std::string& value) {
  if (key == "plugin_sha256") return !value.empty() && group.plugin_sha256.starts_with(value);
  const auto settings = settings_of(group);
  const auto found = settings.find(key);
  if (found == settings.end()) return value == kNotGiven;
  return *found == value_of(value) || *found == nlohmann::json(value);
}

void check_key(const std::vector<const CellGroup*>& groups, const std::string& key) {
  std::set<std::string> known = {"plugin_sha256"};
  for (const auto* group : groups) {
    const auto settings = settings_of(*group);
    for (const auto& [name, value] : settings.items()) known.insert(name);
  }
  KVC_CHECK(known.contains(key), unknown_name("option of " + groups[0]->plugin, key, {known.begin(), known.end()}));
}

std::string labels(const std::vector<const CellGroup*>& groups) {
  std::set<std::string> names;
  for (const auto* group : groups) names.insert("'" + group->name() + "'");
  return join({names.begin(), names.end()});
}

// What tells one group from others of its label: its binary and its settings for generation.
std::string details(const CellGroup& group) {
  return concat("'", group.label(), "' (plugin_sha256=", group.plugin_sha256.substr(0, 12), ", ",
                group.generation_json(), ", cell ", group.cells.begin()->second.substr(0, 12), ")");
}

void check_one_a_model(const std::vector<const CellGroup*>& found, const std::string& pattern) {
  for (size_t i = 1; i < found.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      KVC_CHECK(found[i]->model_label != found[j]->model_label, "compressor '", pattern,
                "' names several: ", details(*found[j]), " and ", details(*found[i]),
                "; say which by key=value, or by an experiment");
    }
  }
}

// "kivi bits 2": of its options those that a table prints.
bool has_options(const CellGroup& group, const std::string& pattern) {
  if (!pattern.starts_with(group.plugin + " ")) return false;
  const auto own = options_of(group.options);
  return std::ranges::all_of(options_of(pattern.substr(group.plugin.size() + 1)),
                             [&](const auto& option) { return std::ranges::count(own, option) > 0; });
}

}  // namespace

void CellGroup::add_frame(const std::string& task, const std::string& chat) {
  if (chat.empty()) {
    without_frame.insert(task);
  } else {
    chat_json = chat;
  }
}

std::string CellGroup::generation_json() const {
  auto settings = try_json(settings_json);
  const auto chat = try_json(chat_json);
  if (!settings.is_object() || !chat.is_object()) return settings_json;
  settings.update(chat);
  return settings.dump();
}

bool same_compressor(const CellGroup& a, const CellGroup& b) {
  return a.model_label == b.model_label && a.plugin == b.plugin && a.options_json == b.options_json &&
         a.settings_json == b.settings_json &&
         (a.chat_json == b.chat_json || a.chat_json.empty() || b.chat_json.empty());
}

std::string frames_note(const std::vector<CellGroup>& groups) {
  std::set<std::string> without, frames;
  for (const auto& group : groups) {
    if (group.chat_json.empty()) continue;
    without.insert(group.without_frame.begin(), group.without_frame.end());
    const auto chat = try_json(group.chat_json);
    const auto name = chat.is_object() ? chat.find("chat_template") : chat.end();
    if (name != chat.end() && name->is_string()) frames.insert(name->get<std::string>());
  }
  frames.erase("none");
  if (without.empty() || frames.empty()) return "";
  return concat("chat frame ", join({frames.begin(), frames.end()}),
                "; none, as their prompts are no user's turn: ", join({without.begin(), without.end()}));
}

std::string settings_apart(const std::vector<CellGroup>& groups, const CellGroup& group) {
  using nlohmann::json;
  const auto mine = try_json(group.generation_json());
  std::map<std::string, std::string> settings;
  bool other_binary = false;
  for (const auto& other : groups) {
    if (other.model_label != group.model_label || other.label() != group.label()) continue;
    other_binary |= other.plugin_sha256 != group.plugin_sha256;
    const auto theirs = try_json(other.generation_json());
    if (!mine.is_object() || !theirs.is_object()) continue;
    for (const auto& [key, value] : mine.items()) {
      if (theirs.value(key, json()) == value) continue;
      settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    for (const auto& [key, value] : theirs.items()) {
      if (!mine.contains(key)) settings[key] = kNotGiven;
    }
  }
  if (settings.contains("chat_template")) {
    for (const char* told : {"chat_frame", "chat_sha256", "add_special_tokens"}) settings.erase(told);
  }
  if (settings.empty() && other_binary) settings["plugin_sha256"] = group.plugin_sha256.substr(0, 12);
  std::string text;
  for (const auto& [key, value] : settings) text += concat(text.empty() ? "" : " ", key, "=", value);
  return text;
}

std::vector<CellGroup> read_groups(Database& db, const GroupFilter& filter, std::vector<std::string>& notes) {
  check_filter(db, filter);
  const auto tasks = tasks_of(db, filter);
  auto select = db.prepare(kCells);
  select.bind(1, filter.experiment);
  std::vector<FoundCell> found;
  while (select.step()) {
    CellGroup cell;
    cell.model_label = select.text(0);
    cell.plugin = select.text(1);
    cell.plugin_sha256 = select.text(4);
    cell.options = select.text(2);
    cell.options_json = select.text(3);
    cell.settings_json = select.text(8);
    cell.given = select.text(10);
    const std::string task = select.text(5), suspect = select.text(7);
    if (!filter.model_label.empty() && cell.model_label != filter.model_label) continue;
    if (!tasks.contains(task)) continue;
    if (!suspect.empty()) {
      notes.push_back(concat(filter.with_suspects ? "suspect: " : "left out as suspect: ", cell.name(), " on ", task,
                             ": ", suspect));
      if (!filter.with_suspects) continue;
    }
    const auto variant = join({cell.model_label, cell.plugin_sha256, cell.options_json, cell.settings_json}, "\n");
    found.push_back({cell, cell.plugin, variant, task, select.text(9), select.text(6)});
  }
  std::vector<CellGroup> groups;
  for (const auto& row : rows_of(found)) groups.push_back(group_of(found, row));
  return groups;
}

std::vector<const CellGroup*> find_groups(const std::vector<CellGroup>& groups, const std::string& pattern) {
  const auto those = [&](auto fits) {
    std::vector<const CellGroup*> found;
    for (const auto& group : groups) {
      if (fits(group)) found.push_back(&group);
    }
    return found;
  };
  auto found = those([&](const auto& group) { return group.label() == pattern || group.given == pattern; });
  if (found.empty()) found = those([&](const auto& group) { return has_options(group, pattern); });
  if (found.empty()) {
    const auto wanted = read_pattern(pattern);
    std::set<std::string> plugins;
    for (const auto& group : groups) {
      plugins.insert(group.plugin);
      if (group.plugin == wanted.plugin) found.push_back(&group);
    }
    KVC_CHECK(!found.empty(), unknown_name("compressor", wanted.plugin, {plugins.begin(), plugins.end()}));
    const auto all = found;
    for (const auto& [key, value] : wanted.settings) {
      check_key(all, key);
      std::erase_if(found, [&](const auto* group) { return !fits(*group, key, value); });
    }
    KVC_CHECK(!found.empty(), "no compressor is '", pattern, "'; there are: ", labels(all));
  }
  check_one_a_model(found, pattern);
  return found;
}

}  // namespace kvc
