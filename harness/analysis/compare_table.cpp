#include <algorithm>

#include "analysis/compare.h"
#include "analysis/weights_note.h"

namespace kvc {
namespace {

constexpr auto kRight = TableColumn::Align::kRight;

bool differ(const CompareReport& report, std::string ComparedRow::*member) {
  return std::any_of(report.rows.begin(), report.rows.end(),
                     [&](const auto& row) { return row.*member != report.rows[0].*member; });
}

bool has_margin(const CompareReport& report) { return report.rows[0].comparison.equivalence.has_value(); }

std::string verdict(const Equivalence& equivalence) {
  if (equivalence.p() < 0.05) return "equivalent";
  return equivalence.p_no_worse < 0.05 ? "no worse" : "not shown";
}

struct Shown {  // columns that a report needs
  bool model = false, a = false, margin = false;
};

std::vector<TableColumn> columns(const Shown& shown) {
  std::vector<TableColumn> columns;
  if (shown.model) columns.push_back({"model"});
  if (shown.a) columns.push_back({"A"});
  for (const char* name : {"B", "task"}) columns.push_back({name});
  columns.push_back({"n", kRight});
  for (const char* name : {"score A", "score B"}) columns.push_back({name, kRight, "%", 2});
  for (const char* name : {"difference", "low", "high"}) columns.push_back({name, kRight, "points", 2});
  columns.push_back({"test"});
  for (const char* name : {"p", "p (Holm)"}) columns.push_back({name, kRight});
  if (shown.margin) {
    for (const char* name : {"p (no worse)", "p (no better)"}) columns.push_back({name, kRight});
    columns.push_back({"within margin"});
  }
  for (const char* name : {"fell", "rose"}) columns.push_back({name, kRight});
  for (const char* name : {"longer, mean", "longer, median"}) columns.push_back({name, kRight, "tokens", 1});
  for (const char* name : {"truncated", "at limit A", "at limit B", "identical"}) {
    columns.push_back({name, kRight, "%", 1});
  }
  columns.push_back({"first difference, median", kRight, "token", 1});
  return columns;
}

std::vector<TableCell> cells(const ComparedRow& row, const Shown& shown) {
  const auto& c = row.comparison;
  std::vector<TableCell> cells;
  if (shown.model) cells.emplace_back(row.model);
  if (shown.a) cells.emplace_back(row.a);
  cells.emplace_back(row.b);
  cells.emplace_back(row.task);
  cells.emplace_back(c.n);
  for (const double share : {c.score_a, c.score_b, c.mean_difference, c.difference.low, c.difference.high}) {
    cells.emplace_back(100 * share);
  }
  cells.emplace_back(c.test);
  for (const double p : {c.p, row.p_holm}) cells.emplace_back(p);
  if (c.equivalence) {
    for (const double p : {c.equivalence->p_no_worse, c.equivalence->p_no_better}) cells.emplace_back(p);
    cells.emplace_back(verdict(*c.equivalence));
  }
  for (const int64_t n : {c.n_fell, c.n_rose}) cells.emplace_back(n);
  for (const double n_tokens : {c.mean_longer, c.median_longer}) cells.emplace_back(n_tokens);
  for (const double share : {c.truncated, c.at_limit_a, c.at_limit_b, c.identical}) cells.emplace_back(100 * share);
  cells.push_back(c.median_first_difference ? TableCell(*c.median_first_difference) : TableCell());
  return cells;
}

}  // namespace

Table compare_table(const CompareReport& report) {
  const bool namesakes = std::all_of(report.rows.begin(), report.rows.end(), [](const auto& r) { return r.a == r.b; });
  const Shown shown{differ(report, &ComparedRow::model), differ(report, &ComparedRow::a) && !namesakes,
                    has_margin(report)};
  Table table;
  table.title = namesakes ? "A and B: the same compressors in two databases"
                : shown.a ? "B against A"
                          : "B against A = " + report.rows[0].a;
  if (!shown.model) table.title += ", " + report.rows[0].model;
  table.title = with_note(table.title, report.weights);
  table.columns = columns(shown);
  for (const auto& row : report.rows) table.rows.push_back(cells(row, shown));
  table.notes = report.notes;
  return table;
}

}  // namespace kvc
