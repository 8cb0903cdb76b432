// `kvc report`: a database as one page that needs no network and no program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/cell_groups.h"
#include "render/table.h"
#include "store/database.h"

namespace kvc {

struct ReportOptions {
  std::string experiment = "all";  // a name, or "all"
  bool with_suspects = false;
  int samples_per_task = 8;  // whose generations the page holds
  std::string baseline;  // compared with all others, a pattern of find_groups; "": the lossless one, if there is one
  std::vector<Table> tables = {};  // more tables, which the page opens with
  std::string tables_heading = "Tables";
  std::string papers_html = {};  // the papers' tables, as pieces of a page
  // The texts of a generation's tokens, one each, whose sum is the generation; {} where the model's tokenizer is not at
  // hand. Without it the page marks the first character that differs.
  std::function<std::vector<std::string>(const std::string& model_label, const std::string& cell_key,
                                         const std::vector<int64_t>& ids)>
      token_texts = nullptr;
};

struct Report {
  std::string html;
  int64_t n_cells = 0, n_samples = 0;  // in the database, of the experiment
  int64_t n_embedded = 0;              // generations that the page holds
  size_t embedded_bytes = 0;           // what they take
  int n_tables = 0, n_charts = 0;
};

// Throws Error for an unknown experiment or baseline, and where nothing is to show. The database is up to date.
Report make_report(Database& db, const ReportOptions& options);

}  // namespace kvc
