// The sections that are tables alone.
#include <algorithm>

#include "analysis/compare.h"
#include "analysis/likelihood_table.h"
#include "analysis/query.h"
#include "analysis/weights_note.h"
#include "kvc/check.h"
#include "render/escape.h"
#include "report/html.h"
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
  const auto table = named_table(data.db, name, data.options.experiment);
  if (table.rows.empty()) return "";
  int key = -1;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == "cell_key") key = static_cast<int>(i);
  }
  return section(name, heading, html_table(table, key));
}

// Of a bench: medians over its repeats.
constexpr const char* kTimes =
    "SELECT c.model, c.task, c.plugin AS compressor, c.options_label AS options, t.batch,"
    " t.n_prompt_tokens AS \"prompt [tokens]\", t.n_new_tokens AS \"new [tokens]\", t.phase, t.part,"
    " count(*) AS n, median(t.seconds) AS \"median [s]\", min(t.seconds) AS \"least [s]\", max(t.seconds) AS \"most "
    "[s]\""
    " FROM timing AS t JOIN cell AS c ON c.key = t.cell_key WHERE :experiment = 'all'"
    " OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)"
    " GROUP BY c.key, t.n_prompt_tokens, t.n_new_tokens, t.batch, t.phase, t.part"
    " ORDER BY c.model, c.task, t.batch, t.n_prompt_tokens, c.is_lossy, c.plugin, c.bits DESC, t.phase, t.part";

constexpr const char* kMemory =
    "SELECT c.model, c.task, c.plugin AS compressor, c.options_label AS options, m.batch,"
    " m.n_prompt_tokens AS \"prompt [tokens]\", m.n_new_tokens AS \"new [tokens]\", m.part,"
    " count(*) AS n, median(m.bytes) AS \"median [bytes]\", max(m.bytes) AS \"most [bytes]\""
    " FROM memory AS m JOIN cell AS c ON c.key = m.cell_key WHERE :experiment = 'all'"
    " OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)"
    " GROUP BY c.key, m.n_prompt_tokens, m.n_new_tokens, m.batch, m.part"
    " ORDER BY c.model, c.task, m.batch, m.n_prompt_tokens, c.is_lossy, c.plugin, c.bits DESC, m.part";

constexpr const char* kCapacity =
    "SELECT c.model, c.task, c.plugin AS compressor, c.options_label AS options, k.kind, k.how,"
    " k.limit_bytes AS \"limit [bytes]\", k.n_tokens AS \"length [tokens]\", k.value"
    " FROM capacity AS k JOIN cell AS c ON c.key = k.cell_key WHERE :experiment = 'all'"
    " OR c.key IN (SELECT cell_key FROM experiment_cell WHERE experiment = :experiment)"
    " ORDER BY c.model, c.task, k.kind, k.limit_bytes, c.is_lossy, c.plugin, c.bits DESC, k.how";

constexpr const char* kExternal =
    "SELECT source, item, model, method, options, column_name AS \"column\", value, mark, note FROM external_result"
    " WHERE :experiment IS NOT NULL ORDER BY source, item, model, method, options, column_name";

std::string likelihood_section(const ReportData& data) {
  const auto table = likelihood_table(data.db, {data.options.experiment, data.options.with_suspects});
  return table.rows.empty() ? "" : section("likelihood", "Likelihood of text by position", html_table(table));
}

// kind: of the cells that its rows are of; "": of none
std::string query_section(const ReportData& data, const char* sql, const std::string& id, const std::string& heading,
                          const std::string& kind) {
  auto table = experiment_query(data.db, sql, data.options.experiment);
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
  const auto heading = "Every compressor against " + options.a;
  try {
    const bool apart = std::any_of(data.groups.begin(), data.groups.end(),
                                   [&](const auto& group) { return !settings_apart(data.groups, group).empty(); });
    return section(
        "compare", heading,
        concat(
            apart ? "<p>Rows of one name differ in settings: they stand as in the charts, which name these.</p>\n" : "",
            html_table(compare_table(compare_groups(data.db, data.db, options)))));
  } catch (const Error& error) {  // several of that name, or no pair: the page says so
    if (!data.options.baseline.empty()) throw;
    return section("compare", heading, concat("<p>Not compared: ", escape_html(error.what()), "</p>\n"));
  }
}

std::string extra_sections(const ReportData& data) {
  return likelihood_section(data) + named_section(data, "stages", "Parts of compositions") +
         named_section(data, "search", "Searches by layer") + query_section(data, kTimes, "times", "Times", "bench") +
         query_section(data, kMemory, "bench-memory", "Memory by batch", "bench") +
         query_section(data, kCapacity, "capacity", "What fits", "capacity") +
         query_section(data, kExternal, "external", "Numbers of others", "");
}

}  // namespace kvc
