#include "hand_made.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "analysis/entries.h"
#include "kvc/check.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string> split(const std::string& line) {  // at "|"
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; std::getline(stream, part, '|');) parts.push_back(trimmed(part));
  return parts;
}

std::string put_cell(ResultStore& store, const std::string& key, const std::string& line) {
  const auto field = split(line);
  KVC_CHECK(field.size() == 12, "hand_worked.txt: '", line, "' has ", field.size(), " fields, expected 12");
  CellRecord cell;
  cell.key = key;
  cell.experiment = field[0], cell.label = field[1], cell.position = std::stoll(field[2]);
  cell.model_label = field[3], cell.task = field[4], cell.plugin = field[5], cell.bits = std::stod(field[6]);
  cell.model_json = cell.task_json = cell.options_json = cell.generation_json = cell.provenance_json = "{}";
  cell.n_samples = 4, cell.lossy = cell.plugin != "full";
  store.put_cell(cell);
  for (int64_t i = 0; i < 4; ++i) {
    SampleRecord sample;
    sample.cell_key = key, sample.sample = i, sample.status = "ok", sample.prompt = concat("Q: ", i, "\nA:");
    sample.scores = {{"first", "a", i < std::stoll(field[7]) ? 1.0 : 0.0}, {"second", "b", 1.0}};
    sample.kv_bytes = std::stoll(field[8]), sample.kv_bytes_fp16 = std::stoll(field[9]);
    sample.n_prompt_tokens = std::stoll(field[10]), sample.n_new_tokens = std::stoll(field[11]);
    sample.n_encoded_tokens = 1, sample.k_error = 0.001, sample.v_error = 0.001;
    store.put_sample(sample);
  }
  return field[0];
}

}  // namespace

std::vector<HandWorked> hand_worked() {
  std::ifstream file(KVC_SOURCE_DIR "/tests/report/tables/hand_worked.txt");
  std::vector<HandWorked> sections;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) sections.push_back({line.substr(3), {}, {}, {}});
    if (line.starts_with("cell: ")) sections.back().cells.push_back(line.substr(6));
    if (line.starts_with("sql: ")) sections.back().sql.push_back(line.substr(5));
    if (line.starts_with("|")) sections.back().lines.push_back(line);
  }
  return sections;
}

HandWorked hand_worked(const std::string& name) {
  for (const auto& section : hand_worked()) {
    if (section.name == name) return section;
  }
  throw Error(concat("hand_worked.txt: no section '", name, "'"));
}

HandMade::HandMade(const HandWorked& section) : name_(section.name) {
  store_.emplace(ResultStore::open(folder_ / "results.sqlite"));
  for (size_t i = 0; i < section.cells.size(); ++i) {
    experiments_.push_back(put_cell(*store_, concat("c", i + 1), section.cells[i]));
  }
  for (const auto& sql : section.sql) db().execute(sql);
}

PaperTable HandMade::table() {
  make_entries(db(), experiments_, false);
  const auto layout = find_layout(tables_folder(), name_);
  auto table = make_paper_table(db(), layout);
  rank_cells(db(), table, layout);
  check_baseline(table, layout);
  return table;
}

fs::path tables_folder() { return KVC_SOURCE_DIR "/results/tables"; }

std::vector<std::string> without_padding(const std::string& markdown) {
  std::vector<std::string> lines;
  std::istringstream stream(markdown);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("|") || line.starts_with("| --")) continue;
    std::string short_line;
    for (const char c : line) {
      if (c != ' ' || !short_line.ends_with(' ')) short_line += c;
    }
    lines.push_back(short_line);
  }
  return lines;
}

}  // namespace kvc::test
