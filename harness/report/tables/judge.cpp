// What a table says of its own figures: which are best, and whether the baseline is there and is the paper's.
#include <algorithm>
#include <map>
#include <set>

#include "kvc/check.h"
#include "tables/paper_table.h"
#include "tables/printed_table.h"
#include "text/nearest.h"

namespace kvc {
namespace {

bool is_baseline(const ShownRow& row, const TableLayout& layout) {
  return std::find(layout.baseline.begin(), layout.baseline.end(), row.name) != layout.baseline.end();
}

bool has_value(const ShownCell& cell) { return !std::holds_alternative<std::monostate>(cell.value); }

// Ranks one column within one group of rows by what is written: figures that round to the same are equal.
void rank_column(const std::vector<ShownCell*>& cells, const ColumnStyle& style) {
  std::set<double> values;
  for (const auto* cell : cells) values.insert(std::stod(shown_value(*cell, style)));
  if (values.size() < 2) return;  // nothing is better than another
  std::vector<double> best(values.begin(), values.end());
  if (style.best == "high") std::reverse(best.begin(), best.end());
  for (auto* cell : cells) {
    const double value = std::stod(shown_value(*cell, style));
    if (value == best[0]) cell->rank = ShownCell::Rank::kBest;
    if (value == best[1] && best.size() > 2) cell->rank = ShownCell::Rank::kSecond;
  }
}

// "FP16", "Llama-2-7B: FP16" or "opt-1.3b RTN 2-shot"
bool is_same_row(const PrintedRow& printed, const ShownRow& row) {
  return printed.name == row.name || printed.name == row.group + ": " + row.name ||
         printed.name == row.group + " " + row.name;
}

const PrintedRow* printed_row(const PrintedTable& printed, const ShownRow& row) {
  const auto found = std::find_if(printed.rows.begin(), printed.rows.end(),
                                  [&](const PrintedRow& candidate) { return is_same_row(candidate, row); });
  return found == printed.rows.end() ? nullptr : &*found;
}

ShownCell printed_cell(const PrintedCell& printed) {
  ShownCell cell;
  if (printed.value) {
    cell.value = printed.text.substr(0, printed.text.size() - printed.mark.size());  // as printed
  } else if (!printed.text.empty()) {
    cell.value = printed.text;
  }
  cell.mark = printed.mark;
  return cell;
}

const std::string* own_column(const TableLayout& layout, const std::string& printed) {
  for (const auto& [column, own] : layout.printed) {
    if (column == printed) return &own;
  }
  return nullptr;
}

PrintedTable load_printed(const TableLayout& layout) {
  auto printed = load_printed_table(layout.printed_file);
  std::vector<std::string> known;
  for (const auto& column : printed.columns) known.push_back(column.name);
  for (const auto& [column, own] : layout.printed) {
    KVC_CHECK(std::find(known.begin(), known.end(), column) != known.end(), layout.yaml_file.string(),
              ": printed.columns: ", unknown_name("column", column, known));
  }
  return printed;
}

// Where a printed column goes: behind ours, if we have it, else at the end.
size_t place_of(const PaperTable& table, const TableLayout& layout, const std::string& printed) {
  const auto* own = own_column(layout, printed);
  for (size_t i = 0; own && i < table.columns.size(); ++i) {
    if (table.columns[i].id == *own && !table.columns[i].printed) return i + 1;
  }
  return table.columns.size();
}

void compare_baseline(const PaperTable& table, const TableLayout& layout, const ShownRow& row,
                      const PrintedTable& printed, std::vector<std::string>& warnings, int& n_compared) {
  const auto* theirs = printed_row(printed, row);
  for (size_t p = 0; theirs && p < printed.columns.size(); ++p) {
    const auto* own = own_column(layout, printed.columns[p].name);
    if (!own || !theirs->cells[p].value) continue;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const auto& cell = row.cells[i];
      const auto *low = std::get_if<double>(&cell.low), *high = std::get_if<double>(&cell.high);
      if (table.columns[i].id != *own || !low || !high) continue;
      ++n_compared;
      const double value = *theirs->cells[p].value;
      if (value >= *low && value <= *high) continue;
      warnings.push_back(concat("baseline off: ", row.name, " in ", *own, " is ",
                                shown_value(cell, table.columns[i].style), shown_interval(cell, table.columns[i].style),
                                ", the paper prints ", theirs->cells[p].text));
    }
  }
}

}  // namespace

void rank_cells(Database& db, PaperTable& table, const TableLayout& layout) {
  std::set<std::string> uncompressed;
  auto select = db.prepare("SELECT key FROM entry WHERE NOT is_lossy");
  while (select.step()) uncompressed.insert(select.text(0));
  const auto takes_part = [&](const ShownRow& row, const ShownCell& cell) {
    const bool is_number = std::holds_alternative<double>(cell.value) || std::holds_alternative<int64_t>(cell.value);
    const auto is_reference = [&](const std::string& key) { return uncompressed.contains(key); };
    return is_number && !is_baseline(row, layout) &&
           (cell.keys.empty() || !std::all_of(cell.keys.begin(), cell.keys.end(), is_reference));
  };
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].printed || table.columns[i].style.best.empty()) continue;
    std::map<std::string, std::vector<ShownCell*>> groups;
    for (auto& row : table.rows) {
      if (takes_part(row, row.cells[i])) groups[row.group].push_back(&row.cells[i]);
    }
    for (auto& [group, cells] : groups) rank_column(cells, table.columns[i].style);
  }
}

namespace {

// The questions that a cell of a table was made of: what two rows must have alike to be compared.
class Questions {
 public:
  explicit Questions(Database& db)
      : select_(db.prepare("SELECT task || ' ' || ifnull((SELECT group_concat(sample) FROM (SELECT sample FROM sample"
                           " WHERE cell_key = key AND status = 'ok' ORDER BY sample)), '') FROM cell WHERE key = ?")) {}

  // "task samples" of each stored cell, in order
  std::multiset<std::string> of(const ShownCell& cell) {
    std::multiset<std::string> all;
    for (const auto& key : cell.keys) all.insert(of_key(key));
    return all;
  }

 private:
  const std::string& of_key(const std::string& key) {
    const auto [known, is_new] = known_.try_emplace(key);
    if (is_new) {
      select_.reset();
      if (select_.bind(1, key).step()) known->second = select_.text(0);
    }
    return known->second;
  }

  Statement select_;
  std::map<std::string, std::string> known_;
};

}  // namespace

void keep_comparable_ranks(Database& db, PaperTable& table) {
  Questions questions(db);
  std::set<std::string> unranked;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    std::map<std::string, const ShownCell*> first;  // by group of rows
    std::set<std::string> differ;
    for (const auto& row : table.rows) {
      const auto& cell = row.cells[i];
      if (!has_value(cell) || table.columns[i].style.best.empty()) continue;
      const auto [group, is_new] = first.emplace(row.group, &cell);
      if (!is_new && questions.of(cell) != questions.of(*group->second)) differ.insert(row.group);
    }
    for (auto& row : table.rows) {
      if (!differ.contains(row.group) || row.cells[i].rank == ShownCell::Rank::kNone) continue;
      row.cells[i].rank = ShownCell::Rank::kNone;
      unranked.insert(column_heading(table.columns[i]));
    }
  }
  if (!unranked.empty()) {
    table.notes.push_back(concat("not ranked, because their rows have different questions: ",
                                 join(std::vector<std::string>(unranked.begin(), unranked.end()))));
  }
}

void check_baseline(PaperTable& table, const TableLayout& layout) {
  if (layout.baseline.empty() || table.rows.empty()) return;
  std::map<std::string, bool> groups;  // of rows: has it a baseline
  for (const auto& row : table.rows) groups[row.group] |= is_baseline(row, layout);
  for (const auto& [group, found] : groups) {
    if (found) continue;
    table.warnings.push_back(
        concat("baseline missing: no row ", join(layout.baseline, " or "), group.empty() ? "" : " for ", group));
  }
  std::optional<PrintedTable> printed;
  if (!layout.printed.empty()) printed = load_printed(layout);
  int n_compared = 0;
  for (const auto& row : table.rows) {
    if (!is_baseline(row, layout)) continue;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const bool wanted = std::any_of(table.rows.begin(), table.rows.end(), [&](const ShownRow& other) {
        return other.group == row.group && has_value(other.cells[i]);
      });
      if (has_value(row.cells[i]) || !wanted || table.columns[i].style.best.empty()) continue;
      table.warnings.push_back(concat("baseline missing: ", row.name, " has no value in ", table.columns[i].id));
    }
    if (printed) compare_baseline(table, layout, row, *printed, table.warnings, n_compared);
  }
  if (printed && n_compared == 0) {
    table.notes.push_back(
        "the paper's models and tasks were not run: its published baseline does not apply to these values");
  }
}

void add_printed(PaperTable& table, const TableLayout& layout) {
  KVC_CHECK(!layout.printed_file.empty(), "table ", layout.name, ": its published values are not on file");
  const auto printed = load_printed(layout);
  const auto group = concat(printed.source, ", ", printed.item, ", printed");
  for (const auto& theirs : printed.rows) {
    const bool known =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return is_same_row(theirs, row); });
    if (!known) {
      table.rows.push_back({theirs.name, "", theirs.name, std::vector<ShownCell>(table.columns.size())});
    }
  }
  std::set<std::string> marks;
  for (size_t p = 0; p < printed.columns.size(); ++p) {
    const size_t place = place_of(table, layout, printed.columns[p].name);
    const bool beside = place < table.columns.size() || own_column(layout, printed.columns[p].name) != nullptr;
    const bool is_ours =
        beside && place > 0 && table.columns[place - 1].id == *own_column(layout, printed.columns[p].name);
    ShownColumn column{printed.columns[p].name, is_ours ? table.columns[place - 1].group : group, {}, true};
    column.style.label = is_ours ? "printed" : printed.columns[p].name;
    table.columns.insert(table.columns.begin() + static_cast<std::ptrdiff_t>(place), column);
    for (auto& row : table.rows) {
      const auto* theirs = printed_row(printed, row);
      auto cell = theirs ? printed_cell(theirs->cells[p]) : ShownCell{};
      if (!cell.mark.empty()) marks.insert(cell.mark);
      row.cells.insert(row.cells.begin() + static_cast<std::ptrdiff_t>(place), std::move(cell));
    }
  }
  for (const auto& mark : marks) table.notes.push_back(concat(mark, " ", printed.marks.at(mark)));
}

}  // namespace kvc
