// The sections that are tables alone.
#include <algorithm>

#include "analysis/compare.h"
#include "analysis/likelihood_table.h"
#include "analysis/query.h"
#include "analysis/shared_options.h"
#include "analysis/tails.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "render/escape.h"
#include "report/html.h"
#include "report/page.h"
#include "report/sections.h"
#include "report/svg.h"

namespace kvc {
namespace {

int64_t n_shared_tasks(const CellGroup& group, const std::vector<CellGroup>& groups) {
  int64_t n = 0;
  for (const auto& other : groups) {
    for (const auto& [task, key] : group.cells) n += &other != &group && other.cells.contains(task);
  }
  return n;
}

// A pattern for the lossless compressor that answered most of what the others did, or "" when there is none.
std::string lossless_pattern(const ReportData& data) {
  const CellGroup* best = nullptr;
  int64_t most = -1;
  auto select = data.db.prepare("SELECT is_lossy FROM cell WHERE key = ?");
  for (const auto& group : data.groups) {
    const bool lossless = select.bind(1, group.cells.begin()->second).step() && select.integer(0) == 0;
    select.reset();
    if (!lossless) continue;
    const int64_t n_shared = n_shared_tasks(group, data.groups);
    if (n_shared > most) best = &group, most = n_shared;
  }
  if (!best) return "";
  const auto settings = settings_apart(data.groups, *best);
  return settings.empty() ? best->label() : best->plugin + " " + settings;
}

std::string named_section(const ReportData& data, const std::string& name, const std::string& heading) {
  auto table = named_table(data.db, name, data.options.experiment);
  if (table.rows.empty()) return "";
  share_options(table);
  int key = -1;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == "cell_key") key = static_cast<int>(i);
  }
  return section(name, heading, html_table(table, key));
}

std::string likelihood_section(const ReportData& data) {
  auto table = likelihood_table(data.db, {data.options.experiment, data.options.with_suspects});
  if (table.rows.empty()) return "";
  auto tails = tails_table(data.db, {data.options.experiment, data.options.with_suspects});
  share_options(table);
  share_options(tails);
  return section("likelihood", "Likelihood of running text by position",
                 html_table(table) + (tails.rows.empty() ? "" : html_table(tails)));
}

// kind: of the cells that its rows are of; "": of none
std::string query_section(const ReportData& data, std::string_view sql, const std::string& id,
                          const std::string& heading, const std::string& kind) {
  auto table = experiment_query(data.db, std::string(sql), data.options.experiment);
  table.title = weights_note(data.db, kind, data.options.experiment);
  return table.rows.empty() ? "" : section(id, heading, html_table(table));
}

}  // namespace

std::string compare_section(const ReportData& data) {
  CompareOptions options;
  options.a = data.options.baseline.empty() ? lossless_pattern(data) : data.options.baseline;
  options.filter.experiment = data.options.experiment;
  options.filter.with_suspects = data.options.with_suspects;
  options.paired_only = true;
  if (options.a.empty() || data.groups.size() < 2) return "";
  const auto heading = "Every compressor compared with " + options.a;
  try {
    const bool apart = std::any_of(data.groups.begin(), data.groups.end(),
                                   [&](const auto& group) { return !settings_apart(data.groups, group).empty(); });
    return section("compare", heading,
                   concat(apart ? "<p>Rows with the same name differ in settings; they are in the order of the charts, "
                                  "which show the settings.</p>\n"
                                : "",
                          html_table(compare_table(compare_groups(data.db, data.db, options)))));
  } catch (const Error& error) {  // several of that name, or no pair: the page says so
    if (!data.options.baseline.empty()) throw;
    return section("compare", heading, concat("<p>Not compared: ", escape_html(error.what()), "</p>\n"));
  }
}

std::string extra_sections(const ReportData& data) {
  return likelihood_section(data) + named_section(data, "stages", "Stages of compositions") +
         named_section(data, "search", "Per-layer searches") +
         query_section(data, times_sql(), "times", "Times", "bench") +
         query_section(data, memory_sql(), "bench-memory", "Memory by batch", "bench") +
         query_section(data, capacity_sql(), "capacity", "What fits", "capacity") +
         named_section(data, "external", "External results");
}

}  // namespace kvc
