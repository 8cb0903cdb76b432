#include "analysis/shared_options.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "kvc/check.h"
#include "render/numbers.h"
#include "text/nearest.h"

namespace kvc {
namespace {

bool is_bits(const std::string& option) { return option.starts_with("bits "); }

// The options that all of these have.
std::set<std::string> shared_options(const std::vector<std::string>& labels) {
  std::map<std::string, size_t> counts;
  for (const auto& label : labels) {
    for (const auto& option : options_of(label)) ++counts[option];
  }
  std::set<std::string> shared;
  for (const auto& [option, n] : counts) {
    if (n == labels.size()) shared.insert(option);
  }
  return shared;
}

// The options of `label` that are not shared.
std::string own_options(const std::string& label, const std::set<std::string>& shared) {
  std::vector<std::string> own;
  for (const auto& option : options_of(label)) {
    if (!shared.contains(option)) own.push_back(option);
  }
  return join(own);
}

std::optional<size_t> column_of(const Table& table, const std::string& name) {
  const auto found = std::ranges::find(table.columns, name, &TableColumn::name);
  if (found == table.columns.end()) return std::nullopt;
  return static_cast<size_t>(found - table.columns.begin());
}

std::string text_of(const TableCell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* number = std::get_if<int64_t>(&cell)) return std::to_string(*number);
  const auto* real = std::get_if<double>(&cell);
  return real ? shortest(*real) : "";
}

void remove_column(Table& table, size_t column) {
  const auto at = static_cast<std::ptrdiff_t>(column);
  table.columns.erase(table.columns.begin() + at);
  for (auto& row : table.rows) row.erase(row.begin() + at);
  decltype(table.tones) tones;
  for (const auto& [place, tone] : table.tones) {
    if (place.second != column) tones[{place.first, place.second - (place.second > column)}] = tone;
  }
  table.tones = std::move(tones);
}

}  // namespace

std::vector<std::string> options_of(const std::string& label) {
  if (label.empty() || label == "defaults") return {};
  if (label.find(" + ") != std::string::npos || label.find("; ") != std::string::npos) return {label};
  std::vector<std::string> options;
  int depth = 0;  // of brackets: a value may be a list
  size_t begin = 0;
  for (size_t i = 0; i < label.size(); ++i) {
    if (label[i] == '[' || label[i] == '{') ++depth;
    if (label[i] == ']' || label[i] == '}') --depth;
    if (depth != 0 || label.compare(i, 2, ", ") != 0) continue;
    options.push_back(label.substr(begin, i - begin));
    begin = i + 2;
  }
  options.push_back(label.substr(begin));
  return options;
}

void share_options(Table& table) {
  const auto compressor = column_of(table, "compressor"), options = column_of(table, "options");
  if (!compressor || !options) return;
  std::vector<std::string> names;  // in their order
  std::map<std::string, std::vector<size_t>> rows;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto name = text_of(table.rows[i][*compressor]);
    if (rows[name].empty()) names.push_back(name);
    rows[name].push_back(i);
  }
  const auto bits = column_of(table, "bits");
  std::vector<std::string> said;
  bool is_needed = false;
  for (const auto& name : names) {
    std::vector<std::string> labels;
    for (const size_t i : rows[name]) {
      const auto said_there = bits ? "bits " + text_of(table.rows[i][*bits]) : "";
      labels.push_back(own_options(text_of(table.rows[i][*options]), {said_there}));
    }
    auto shared = shared_options(labels);
    if (!bits) std::erase_if(shared, is_bits);
    for (size_t i = 0; i < labels.size(); ++i) {
      auto own = own_options(labels[i], shared);
      is_needed |= !own.empty();
      table.rows[rows[name][i]][*options] = std::move(own);
    }
    if (!shared.empty()) said.push_back(concat(name, ": ", join({shared.begin(), shared.end()})));
  }
  if (!is_needed) remove_column(table, *options);
  if (!said.empty()) table.notes.push_back("options: " + join(said, "; "));
}

void shorten_labels(Database& db) {
  std::map<std::string, std::vector<std::string>> labels;
  auto select = db.prepare(
      "SELECT DISTINCT e.plugin, c.options_label FROM temp.entry AS e JOIN cell AS c USING (key)"
      " WHERE e.label = e.plugin || ' ' || c.options_label");
  while (select.step()) labels[select.text(0)].push_back(select.text(1));
  for (const auto& [plugin, of_plugin] : labels) {
    auto shared = shared_options(of_plugin);
    std::erase_if(shared, is_bits);
    for (const auto& label : of_plugin) {
      const auto own = own_options(label, shared);
      const auto name = own.empty() ? plugin : concat(plugin, " ", own);
      // A name that an experiment gave to another stays that one's.
      db.prepare(
            "UPDATE temp.entry SET label = ?1 WHERE label = ?2 AND NOT EXISTS (SELECT 1 FROM temp.entry WHERE label = "
            "?1)")
          .bind(1, name)
          .bind(2, concat(plugin, " ", label))
          .run();
    }
  }
}

}  // namespace kvc
