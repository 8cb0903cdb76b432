#include "analysis/compare.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "stats/paired.h"

namespace kvc {
namespace {

using GroupPair = std::pair<const CellGroup*, const CellGroup*>;

std::string shown(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

// One of each on every model that both have.
std::vector<GroupPair> by_model(const std::vector<const CellGroup*>& all_a,
                                const std::vector<const CellGroup*>& all_b) {
  std::vector<GroupPair> pairs;
  for (const auto* a : all_a) {
    for (const auto* b : all_b) {
      if (a->model_label == b->model_label) pairs.emplace_back(a, b);
    }
  }
  return pairs;
}

std::vector<GroupPair> against_one(const std::vector<const CellGroup*>& all_a, const std::vector<CellGroup>& groups_b) {
  std::vector<GroupPair> pairs;
  for (const auto* a : all_a) {
    for (const auto& b : groups_b) {
      const bool is_itself = a->cells == b.cells;
      if (a->model_label == b.model_label && !is_itself) pairs.emplace_back(a, &b);
    }
  }
  return pairs;
}

std::vector<GroupPair> namesakes(const std::vector<CellGroup>& groups_a, const std::vector<CellGroup>& groups_b) {
  std::vector<GroupPair> pairs;
  std::set<const CellGroup*> taken;
  for (const auto& b : groups_b) {
    for (const auto& a : groups_a) {
      if (!same_compressor(a, b)) continue;
      const bool is_new = taken.insert(&a).second && taken.insert(&b).second;
      KVC_CHECK(is_new, "'", b.label(), "' is there more than once; name it, or an experiment");
      pairs.emplace_back(&a, &b);
    }
  }
  return pairs;
}

std::vector<GroupPair> chosen_pairs(const std::vector<CellGroup>& groups_a, const std::vector<CellGroup>& groups_b,
                                    const CompareOptions& options) {
  if (options.a.empty()) return namesakes(groups_a, groups_b);
  const auto all_a = find_groups(groups_a, options.a);
  if (options.b.empty()) return against_one(all_a, groups_b);
  return by_model(all_a, find_groups(groups_b, options.b));
}

// "demo/swaps, full and kivi bits 2: 3 samples only in the first, 1 failed"
std::string unpaired_text(const GroupPair& groups, const PairedTask& paired) {
  const auto& unpaired = paired.unpaired;
  return concat(paired.task, ", ", groups.first->name(), " and ", groups.second->name(), ": ", paired.pairs.size(),
                " pairs; unpaired: ", unpaired.n_only_a, " only in the first, ", unpaired.n_only_b,
                " only in the second, ", unpaired.n_failed, " failed or not scored, ", unpaired.n_other_question,
                " with another prompt or gold answer");
}

void add_row(CompareReport& report, const GroupPair& groups, const std::string& task,
             const std::vector<AnswerPair>& pairs, double margin) {
  const auto& [a, b] = groups;
  report.rows.push_back({a->model_label, a->name(), b->name(), task, compare_pairs(pairs, margin)});
}

void add_rows(CompareReport& report, const GroupPair& groups, const std::vector<PairedTask>& tasks,
              const CompareOptions& options) {
  std::vector<AnswerPair> pooled;
  std::set<std::string> names;
  for (const auto& paired : tasks) {
    if (paired.unpaired.n() > 0) {
      const auto text = unpaired_text(groups, paired);
      KVC_CHECK(options.paired_only, text, "; finish the run, or compare only the pairs (--paired-only)");
      report.notes.push_back(text);
    }
    if (paired.pairs.empty()) continue;
    if (!options.pooled) add_row(report, groups, paired.task, paired.pairs, options.margin);
    pooled.insert(pooled.end(), paired.pairs.begin(), paired.pairs.end());
    names.insert(paired.task);
  }
  if (names.size() > 1) add_row(report, groups, "all tasks", pooled, options.margin);
  if (names.size() == 1 && options.pooled) add_row(report, groups, *names.begin(), pooled, options.margin);
}

// Of the tasks of both that score running text.
void add_kl_rows(CompareReport& report, Database& db_a, Database& db_b, const GroupPair& groups,
                 const CompareOptions& options) {
  const auto* a = groups.first;
  const auto* b = groups.second;
  std::vector<std::pair<TextWindows, TextWindows>> all;
  const auto add = [&](const std::string& task, const std::vector<std::pair<TextWindows, TextWindows>>& cells) {
    report.kl_rows.push_back({a->model_label, a->name(), b->name(), task, paired_kl(cells), std::nullopt});
  };
  for (const auto& [task, key] : a->cells) {
    const auto other = b->cells.find(task);
    if (other == b->cells.end()) continue;
    std::pair cell{text_windows(db_a, key), text_windows(db_b, other->second)};
    if (cell.first.empty() || cell.second.empty()) continue;
    if (!options.pooled) add(task, {cell});
    all.push_back(std::move(cell));
  }
  if (all.size() > 1 || (options.pooled && !all.empty())) add("all texts", all);
}

void adjust_kl(CompareReport& report) {
  std::vector<std::optional<double>> p_values;
  for (const auto& row : report.kl_rows) p_values.push_back(row.kl.p);
  const auto adjusted = holm(p_values);
  for (size_t i = 0; i < adjusted.size(); ++i) report.kl_rows[i].p_holm = adjusted[i];
}

void adjust(CompareReport& report) {
  std::vector<double> p_values;
  for (const auto& row : report.rows) p_values.push_back(row.comparison.p);
  const auto adjusted = holm(p_values);
  for (size_t i = 0; i < adjusted.size(); ++i) report.rows[i].p_holm = adjusted[i];
}

// Of few questions: what they could show at best.
std::string few_questions_note(const CompareReport& report) {
  constexpr int64_t kFew = 50;
  int64_t n = kFew;
  for (const auto& row : report.rows) {
    if (row.comparison.is_binary) n = std::min(n, row.comparison.n);
  }
  if (n >= kFew) return "";
  int64_t changed = 1;
  while (mcnemar_exact(0, changed) >= 0.05) ++changed;
  if (changed > n) return concat("of ", n, " questions no difference has p < 0.05: ", changed, " are the least");
  return concat("of ", n, " questions at least ", changed, " must change, all in one direction, for p < 0.05: ",
                shown("%.3g", 100.0 * static_cast<double>(changed) / static_cast<double>(n)), " points");
}

void explain(CompareReport& report, double margin) {
  if (const auto note = few_questions_note(report); !note.empty()) report.notes.push_back(note);
  report.notes.push_back(
      "difference: B - A over the same questions; low, high: its 95 % interval, Tango's score interval if all scores "
      "are 0 or 1, else BCa bootstrap (10000 draws, seed 0)");
  report.notes.push_back(concat("p: two-sided; p (Holm): adjusted for all ", report.rows.size(),
                                " rows; regressed: right to wrong; improved: wrong to right"));
  if (margin <= 0) return;
  report.notes.push_back(
      concat("margin ", shown("%g", 100 * margin),
             " points: 'no worse' if p (no worse) < 0.05, 'equivalent' if p (no better) < 0.05 too; Tango's score "
             "tests if all scores are 0 or 1, else Student's t; not adjusted"));
}

// Of the models of all pairs; of two databases each names its own.
std::string weights_of(Database& db_a, Database& db_b, const std::vector<GroupPair>& pairs) {
  std::set<std::string> keys_a, keys_b;
  for (const auto& [a, b] : pairs) {
    for (const auto& [task, key] : a->cells) keys_a.insert(key);
    for (const auto& [task, key] : b->cells) keys_b.insert(key);
  }
  const auto a = weights_note(db_a, keys_a), b = weights_note(db_b, keys_b);
  return a == b ? a : with_note(a.empty() ? "" : "A: " + a, b.empty() ? "" : "B: " + b);
}

}  // namespace

CompareReport compare_groups(Database& db_a, Database& db_b, const CompareOptions& options) {
  CompareReport report;
  std::vector<std::string> notes_a;
  const auto groups_b = read_groups(db_b, options.filter, report.notes);
  const auto groups_a = read_groups(db_a, options.filter, notes_a);
  if (&db_a != &db_b) report.notes.insert(report.notes.end(), notes_a.begin(), notes_a.end());
  const auto pairs = chosen_pairs(groups_a, groups_b, options);
  for (const auto& groups : pairs) {
    add_rows(report, groups, read_pairs(db_a, *groups.first, db_b, *groups.second, options.extractor), options);
    add_kl_rows(report, db_a, db_b, groups, options);
  }
  KVC_CHECK(!report.rows.empty(), "nothing to compare: ", pairs.size(), " pairs of compressors and no paired sample");
  report.weights = weights_of(db_a, db_b, pairs);
  adjust(report);
  adjust_kl(report);
  explain(report, options.margin);
  if (const auto frames = frames_note(groups_b); !frames.empty()) report.notes.push_back(frames);
  return report;
}

std::vector<std::string> worse_rows(const CompareReport& report, double points) {
  std::vector<std::string> lines;
  for (const auto& row : report.rows) {
    const double fall = -100 * row.comparison.mean_difference;
    if (fall <= points || row.p_holm >= 0.05) continue;
    lines.push_back(concat(row.b, " on ", row.task, ": ", shown("%.2f", fall), " points below ", row.a, ", p (Holm) ",
                           shown("%.3g", row.p_holm), "; allowed: ", shown("%g", points), " points"));
  }
  return lines;
}

}  // namespace kvc
