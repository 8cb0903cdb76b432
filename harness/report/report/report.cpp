#include "report/report.h"

#include <algorithm>
#include <filesystem>

#include "analysis/query.h"
#include "analysis/shared_options.h"
#include "analysis/summary.h"
#include "kvc/check.h"
#include "render/escape.h"
#include "report/html.h"
#include "report/page.h"
#include "report/sections.h"
#include "report/svg.h"

namespace kvc {
namespace {

ReportData read_data(Database& db, const ReportOptions& options) {
  ReportData data{db, options, {}, false, {}, {}};
  std::vector<std::string> notes;  // the summary has them, too
  data.groups = read_groups(db, {options.experiment, "", {}, options.with_suspects}, notes);
  for (auto& row : read_summary(db, options.experiment)) data.cells.emplace(row.key, row);
  std::set<std::string> tasks;
  for (const auto& group : data.groups) {
    data.many_models |= group.model_label != data.groups[0].model_label;
    for (const auto& [task, key] : group.cells) tasks.insert(task);
  }
  data.tasks.assign(tasks.begin(), tasks.end());
  return data;
}

std::string summary_section(const ReportData& data) {
  if (data.groups.empty()) return "";
  auto summary = summary_table(data.db, {data.options.experiment, data.options.with_suspects});
  share_options(summary);
  const auto body = section("summary", "Summary", html_table(summary));
  return data.options.papers_html.empty() ? body
                                          : body + section("papers", "Tables of papers", data.options.papers_html);
}

std::string first_section(const ReportData& data) {
  std::string body;
  for (const auto& table : data.options.tables) {
    if (!table.rows.empty()) body += html_table(table);
  }
  return body.empty() ? "" : section("first", data.options.tables_heading, body);
}

int count_of(const std::string& text, const std::string& what) {
  int n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// Links to the sections that are there.
std::string contents(const std::string& body) {
  std::string links;
  const std::string start = "<section id=\"", middle = "\"><h2>";
  for (auto at = body.find(start); at != std::string::npos; at = body.find(start, at + 1)) {
    const auto id = at + start.size(), id_end = body.find('"', id), name = id_end + middle.size();
    links += concat("<a href=\"#", body.substr(id, id_end - id), "\">",
                    body.substr(name, body.find("</h2>", name) - name), "</a> ");
  }
  return "<nav>" + links + "</nav>\n";
}

std::string page_of(const std::string& title, const std::string& about, const std::string& body) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>",
      title, "</title>\n<style>\n", report_css(), "</style></head>\n<body><header><h1>", title, "</h1>\n<p>", about,
      "</p>\n", contents(body), "</header>\n<main>\n", body, "</main>\n<script>\n", report_js(),
      "</script></body></html>\n");
}

}  // namespace

std::string ReportData::label(const CellGroup& group) const {
  const auto settings = settings_apart(groups, group);
  return concat(many_models ? group.model_label + ": " : "", group.name(),
                settings.empty() ? "" : " (" + settings + ")");
}

Report make_report(Database& db, const ReportOptions& options) {
  const auto data = read_data(db, options);
  Report report;
  auto count = db.prepare(
      "SELECT count(*), ifnull(sum((SELECT count(*) FROM sample WHERE cell_key = key)), 0) FROM cell"
      " WHERE ?1 = 'all' AND key NOT IN (SELECT cell_key FROM v_older) OR key IN (SELECT cell_key FROM experiment_cell "
      "WHERE experiment = ?1)");
  count.bind(1, options.experiment);
  count.step();
  report.n_cells = count.integer(0);
  report.n_samples = count.integer(1);
  const auto n_external = db.integer("SELECT count(*) FROM external_result");
  KVC_CHECK(report.n_cells > 0 || n_external > 0, "results database '", db.path(), "': no cells, nothing to report");
  if (report.n_cells == 0) {
    const auto body = extra_sections(data);
    report.n_tables = count_of(body, "<table");
    report.html = page_of("kvc: " + escape_html(std::filesystem::path(db.path()).filename().string()),
                          concat(n_external, " external results, and no cells."), body);
    return report;
  }
  const auto samples = sample_section(data);
  report.n_embedded = samples.n_embedded;
  report.embedded_bytes = samples.bytes;
  const auto body = first_section(data) + summary_section(data) + pareto_section(data) + compare_section(data) +
                    bytes_section(data) + error_section(data) + memory_section(data) + extra_sections(data) +
                    samples.html + provenance_section(data);
  report.n_tables = count_of(body, "<table");
  report.n_charts = count_of(body, "<figure>");
  const auto name = escape_html(std::filesystem::path(db.path()).filename().string());
  const auto what = options.experiment == "all" ? std::string() : ", experiment " + escape_html(options.experiment);
  report.html = page_of(concat("kvc: ", name, what),
                        concat(report.n_cells, " cells, ", report.n_samples, " samples, ", data.groups.size(),
                               " compressors, ", data.tasks.size(),
                               " tasks. Click a heading to sort; click a mark or a key to "
                               "go to its cell."),
                        body);
  return report;
}

}  // namespace kvc
