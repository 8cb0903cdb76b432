#include <algorithm>
#include <cstdio>

#include "analysis/compare.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "render/numbers.h"

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
  for (const char* name : {"regressed", "improved"}) columns.push_back({name, kRight});
  for (const char* name : {"extra tokens, mean", "extra tokens, median"}) columns.push_back({name, kRight, "", 1});
  for (const char* name : {"truncated", "at limit A", "at limit B", "in a loop A", "in a loop B", "identical"}) {
    columns.push_back({name, kRight, "%", 1});
  }
  columns.push_back({"first divergence, median", kRight, "token", 1});
  return columns;
}

std::vector<TableCell> cells(const ComparedRow& row, const Shown& shown) {
  const auto& c = row.comparison;
  std::vector<TableCell> cells;
  if (shown.model) cells.emplace_back(row.model_label);
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
  for (const double share : {c.truncated, c.at_limit_a, c.at_limit_b, c.in_loop_a, c.in_loop_b, c.identical}) {
    cells.emplace_back(100 * share);
  }
  cells.push_back(c.median_first_difference ? TableCell(*c.median_first_difference) : TableCell());
  return cells;
}

bool of_namesakes(const CompareReport& report) {
  return std::all_of(report.rows.begin(), report.rows.end(), [](const auto& r) { return r.a == r.b; });
}

// Columns that name what all rows have alike are not shown; the title says it.
Shown shown_of(const CompareReport& report) {
  return {differ(report, &ComparedRow::model_label), differ(report, &ComparedRow::a) && !of_namesakes(report),
          has_margin(report)};
}

std::string title_of(const CompareReport& report, const Shown& shown) {
  std::string title = of_namesakes(report) ? "A and B: the same compressors in two databases"
                      : shown.a            ? "B against A"
                                           : "B against A = " + report.rows[0].a;
  if (!shown.model) title += ", " + report.rows[0].model_label;
  return with_note(title, report.weights);
}

// "0.016", "1.2e-05": two digits
std::string p_text(double p) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", p);
  return text;
}

}  // namespace

Table compare_table(const CompareReport& report) {
  const auto shown = shown_of(report);
  Table table;
  table.title = title_of(report, shown);
  table.columns = columns(shown);
  for (const auto& row : report.rows) table.rows.push_back(cells(row, shown));
  table.notes = report.notes;
  return table;
}

Table compared_kl_table(const CompareReport& report) {
  constexpr auto kLeft = TableColumn::Align::kLeft;
  constexpr auto kMain = TableColumn::Rank::kMain;
  Table table;
  table.title = "KL divergence on the same tokens";
  const bool has_models = std::any_of(report.kl_rows.begin(), report.kl_rows.end(), [&](const auto& row) {
    return row.model_label != report.kl_rows[0].model_label;
  });
  if (has_models) table.columns.push_back({"model", kLeft, "", -1, kMain});
  for (const char* name : {"A", "B", "task"}) table.columns.push_back({name, kLeft, "", -1, kMain});
  for (const char* name : {"windows", "tokens"}) table.columns.push_back({name, kRight});
  for (const char* name : {"KL A", "KL B"}) table.columns.push_back({name, kRight, "nats"});
  for (const char* name : {"B - A", "low", "high"}) table.columns.push_back({name, kRight, "nats", -1, kMain});
  table.columns.push_back({"p", kRight});
  table.columns.push_back({"p (Holm)", kRight, "", -1, kMain});
  for (const auto& row : report.kl_rows) {
    auto& line = table.rows.emplace_back();
    if (has_models) line.emplace_back(row.model_label);
    const auto& kl = row.kl;
    const auto number = [](double value) { return to_digits(value, 3); };
    line.insert(line.end(), {row.a, row.b, row.task, kl.n_windows, kl.n_tokens, number(kl.kl_a), number(kl.kl_b),
                             number(kl.difference)});
    line.push_back(kl.interval ? TableCell(number(kl.interval->low)) : TableCell());
    line.push_back(kl.interval ? TableCell(number(kl.interval->high)) : TableCell());
    line.push_back(kl.p ? TableCell(to_digits(*kl.p, 2)) : TableCell());
    line.push_back(row.p_holm ? TableCell(to_digits(*row.p_holm, 2)) : TableCell());
    if (row.p_holm.value_or(1) >= 0.05) continue;
    table.tones[{table.rows.size() - 1, line.size() - 5}] = kl.difference > 0 ? TableTone::kBad : TableTone::kGood;
  }
  table.notes.emplace_back(kPairedKlNote);
  return table;
}

Table brief_compare_table(const CompareReport& report) {
  const auto shown = shown_of(report);
  Table table;
  table.title = title_of(report, shown);
  constexpr auto kLeft = TableColumn::Align::kLeft;
  constexpr auto kMain = TableColumn::Rank::kMain;
  if (shown.model) table.columns.push_back({"model", kLeft, "", -1, kMain});
  if (shown.a) table.columns.push_back({"A", kLeft, "", -1, kMain});
  table.columns.insert(table.columns.end(), {{"B", kLeft, "", -1, kMain},
                                             {"task", kLeft, "", -1, kMain},
                                             {"A", kRight, "%", 1},
                                             {"B", kRight, "%", 1},
                                             {"B - A", kRight, "points", -1, kMain},
                                             {"p (Holm)", kRight, "", -1, kMain}});
  if (shown.margin) table.columns.push_back({"within margin"});
  for (const auto& row : report.rows) {
    const auto& c = row.comparison;
    auto& line = table.rows.emplace_back();
    if (shown.model) line.emplace_back(row.model_label);
    if (shown.a) line.emplace_back(row.a);
    const auto points = [](double share) { return rounded(100 * share, 1); };
    const auto difference =
        concat(points(c.mean_difference), " [", points(c.difference.low), ", ", points(c.difference.high), "]");
    line.insert(line.end(), {row.b, row.task, 100 * c.score_a, 100 * c.score_b, difference, p_text(row.p_holm)});
    if (row.p_holm < 0.05) {
      const auto tone = c.mean_difference < 0 ? TableTone::kBad : TableTone::kGood;
      table.tones[{table.rows.size() - 1, line.size() - 2}] = tone;
    }
    if (shown.margin) line.emplace_back(verdict(*c.equivalence));
  }
  table.notes = report.notes;
  table.notes.emplace_back("--wide: tests, regressed and improved answers, lengths and first divergent tokens");
  return table;
}

}  // namespace kvc
