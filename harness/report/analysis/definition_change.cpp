#include "analysis/definition_change.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "kvc/check.h"
#include "text/json.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr size_t kFewFields = 4, kLongestValue = 32;

json parsed(const std::string& text) {
  auto value = try_json(text);
  return value.is_discarded() ? json(text) : value;
}

std::string in_words(const json& value) {
  auto text = value.is_string() ? value.get<std::string>() : value.dump();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= kLongestValue) return text;
  size_t end = kLongestValue - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no character is cut in two
  return text.substr(0, end) + "...";
}

// What a cell is, leaf by leaf.
std::map<std::string, json> leaves_of(const CellRecord& cell) {
  std::map<std::string, json> leaves;
  const auto add = [&](const auto& self, const std::string& path, const json& value) -> void {
    if (!value.is_object() || value.empty()) {
      leaves[path] = value;
      return;
    }
    for (const auto& [name, inner] : value.items()) self(self, path + "." + name, inner);
  };
  add(add, cell.plugin, parsed(cell.options_json));
  add(add, "settings", parsed(cell.generation_json));
  add(add, "task", parsed(cell.task_json));
  add(add, "model", parsed(cell.model_json));
  leaves[cell.plugin + " (the plugin's file)"] = cell.plugin_sha256;
  return leaves;
}

std::vector<std::string> differences(const CellRecord& before, const CellRecord& after) {
  const auto old_leaves = leaves_of(before), new_leaves = leaves_of(after);
  std::vector<std::string> fields;
  for (const auto& [path, value] : new_leaves) {
    const auto old = old_leaves.find(path);
    if (old == old_leaves.end()) {
      fields.push_back(concat(path, ": none -> ", in_words(value)));
    } else if (old->second != value) {
      fields.push_back(concat(path, ": ", in_words(old->second), " -> ", in_words(value)));
    }
  }
  for (const auto& [path, value] : old_leaves) {
    if (!new_leaves.contains(path)) fields.push_back(concat(path, ": ", in_words(value), " -> none"));
  }
  return fields;
}

std::string name_of(const CellRecord& cell) {
  if (!cell.label.empty()) return cell.label;
  return cell.options_label.empty() || cell.options_label == "defaults" ? cell.plugin
                                                                        : cell.plugin + " " + cell.options_label;
}

using Place = std::tuple<RunKind, std::string, std::string>;  // kind, model, task
Place place_of(const CellRecord& cell) { return {cell.kind, cell.model_label, cell.task}; }

void add_once(const std::string& field, std::vector<std::string>& fields) {
  if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
}

// Of what has no cell of its key on the other side: each earlier one beside the later one of its plugin, task and model
// that differs least.
class Pairing {
 public:
  Pairing(const std::vector<CellRecord>& before, const std::vector<CellRecord>& after) {
    std::set<std::string> old_keys, new_keys;
    for (const auto& cell : before) old_keys.insert(cell.key), tasks_before_.insert(place_of(cell));
    for (const auto& cell : after) new_keys.insert(cell.key), tasks_after_.insert(place_of(cell));
    for (const auto& cell : before) {
      if (!new_keys.contains(cell.key)) before_.push_back(&cell);
    }
    for (const auto& cell : after) {
      if (!old_keys.contains(cell.key)) after_.push_back(&cell);
    }
    change_.n_only_before = static_cast<int64_t>(before_.size());
    change_.n_only_after = static_cast<int64_t>(after_.size());
    change_.n_alike = static_cast<int64_t>(before.size() - before_.size());
  }

  DefinitionChange run() {
    pair();
    for (const auto& place : tasks_after_) {
      if (!tasks_before_.contains(place)) add_once("task added: " + std::get<2>(place), change_.fields);
    }
    for (const auto& place : tasks_before_) {
      if (!tasks_after_.contains(place)) add_once("task gone: " + std::get<2>(place), change_.fields);
    }
    for (const auto* cell : after_) {
      if (tasks_before_.contains(place_of(*cell))) add_once("compressor added: " + name_of(*cell), change_.fields);
    }
    for (const auto* cell : before_) {
      if (!tasks_after_.contains(place_of(*cell))) continue;
      add_once("compressor gone: " + name_of(*cell), change_.fields);
      change_.gone.insert(cell->key);
    }
    return std::move(change_);
  }

 private:
  void pair() {
    std::erase_if(before_, [&](const CellRecord* old) {
      const CellRecord* nearest = nullptr;
      std::vector<std::string> fewest;
      for (const auto* cell : after_) {
        if (place_of(*cell) != place_of(*old) || cell->plugin != old->plugin) continue;
        auto fields = differences(*old, *cell);
        if (nearest && fields.size() >= fewest.size()) continue;
        nearest = cell, fewest = std::move(fields);
      }
      if (!nearest) return false;
      for (const auto& field : fewest) add_once(field, change_.fields);
      change_.replaced.insert(old->key);
      std::erase(after_, nearest);
      return true;
    });
  }

  std::set<Place> tasks_before_, tasks_after_;
  std::vector<const CellRecord*> before_, after_;
  DefinitionChange change_;
};

}  // namespace

std::string older_name(const std::string& experiment) { return experiment + "@older"; }

std::vector<CellRecord> stored_cells(Database& db, const std::string& experiment) {
  std::vector<CellRecord> cells;
  auto select = db.prepare(
      "SELECT c.key, c.kind, c.model, c.task, c.model_json, c.task_json, c.plugin, c.plugin_sha256, c.options_json,"
      " c.options_label, c.generation_json, e.label, e.position FROM experiment_cell AS e"
      " JOIN cell AS c ON c.key = e.cell_key WHERE e.experiment = ? ORDER BY c.task, e.position, c.key");
  select.bind(1, experiment);
  while (select.step()) {
    CellRecord cell;
    cell.experiment = experiment;
    cell.key = select.text(0), cell.kind = run_kind(select.text(1)), cell.model_label = select.text(2);
    cell.task = select.text(3), cell.model_json = select.text(4), cell.task_json = select.text(5);
    cell.plugin = select.text(6), cell.plugin_sha256 = select.text(7), cell.options_json = select.text(8);
    cell.options_label = select.text(9), cell.generation_json = select.text(10);
    cell.label = select.text(11), cell.position = select.integer(12);
    cells.push_back(std::move(cell));
  }
  return cells;
}

DefinitionChange definition_change(const std::vector<CellRecord>& before, const std::vector<CellRecord>& after) {
  return Pairing(before, after).run();
}

std::string change_in_words(const DefinitionChange& change) {
  const auto n = std::min(kFewFields, change.fields.size());
  auto text = join({change.fields.begin(), change.fields.begin() + static_cast<std::ptrdiff_t>(n)}, "; ");
  if (n < change.fields.size()) text += concat("; and ", change.fields.size() - n, " more");
  return text;
}

std::string older_note(Database& db, const std::string& experiment) {
  auto select = db.prepare(
      "SELECT experiment, count(*) FROM experiment_cell WHERE experiment LIKE '%@older'"
      " AND (?1 = 'all' OR experiment = ?2) GROUP BY experiment ORDER BY experiment");
  select.bind(1, experiment).bind(2, older_name(experiment));
  std::vector<std::string> notes;
  while (select.step()) {
    notes.push_back(concat(select.integer(1), " cells of an older definition are not shown; `--experiment ",
                           select.text(0), "` shows them"));
  }
  return join(notes, "; ");
}

}  // namespace kvc
