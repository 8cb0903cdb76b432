// `kvc compare`: paired tests between compressors, as a table with Holm's adjustment over all of its rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/cell_groups.h"
#include "analysis/comparison.h"
#include "analysis/paired_kl.h"
#include "render/table.h"
#include "store/database.h"

namespace kvc {

// Which pairs (A, B) are compared, by patterns of find_groups. a and b: these two. Only a: a against every other of its
// model. None: every one of database B against its namesake in database A, whatever the plugins' binaries.
struct CompareOptions {
  std::string a, b;
  GroupFilter filter;
  std::string extractor;     // "": the headline score
  double margin = 0;         // of the equivalence tests, as a share of the full score; 0: none
  bool pooled = false;       // one row for a pair: of all tasks together
  bool paired_only = false;  // leave samples without partner out, with a note, instead of refusing
};

struct ComparedRow {
  std::string model_label, a, b, task;  // labels; task "all tasks" for the pooled row
  Comparison comparison;
  double p_holm = 1;
};

// Of a task that scores running text; task "all texts": of all of them together.
struct ComparedKl {
  std::string model_label, a, b, task;
  PairedKl kl;
  std::optional<double> p_holm;  // over the rows of this kind
};

struct CompareReport {
  std::vector<ComparedRow> rows;
  std::vector<ComparedKl> kl_rows;
  std::vector<std::string> notes;
  std::string weights;  // of the caption, as weights_note says it
};

// One row a task, unless pooled, then one over all pairs when there are several tasks. Throws Error for names that fit
// none or several, for samples without a partner (with their counts), and when nothing is left to compare.
CompareReport compare_groups(Database& db_a, Database& db_b, const CompareOptions& options);

Table compare_table(const CompareReport& report);
Table compared_kl_table(const CompareReport& report);    // without rows where no task scores running text
Table brief_compare_table(const CompareReport& report);  // for a terminal: scores, difference with interval, p

// One line for each row that is worse than A by more than `points` (of 100) with Holm's p below 0.05.
std::vector<std::string> worse_rows(const CompareReport& report, double points);

}  // namespace kvc
