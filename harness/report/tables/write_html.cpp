// Tables of papers as HTML. Every cell's title names what it was made of.
#include <algorithm>

#include "kvc/check.h"
#include "render/escape.h"
#include "tables/paper_table.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Rank = ShownCell::Rank;

constexpr const char* kStyle =
    "body{font:15px/1.4 system-ui,sans-serif;margin:2em;color-scheme:light dark}"
    "table{border-collapse:collapse;border-top:2px solid;border-bottom:2px solid;font-variant-numeric:tabular-nums}"
    "caption{text-align:left;margin-bottom:.6em;font-weight:600}"
    "th,td{padding:.25em .7em;text-align:right}th[scope=row],.text{text-align:left}th[scope=row]{font-weight:400}"
    "thead th:first-child{text-align:left}thead tr:last-child th{border-bottom:1px "
    "solid}th[colspan]{text-align:center;border-bottom:1px solid}"
    ".group th{text-align:left;font-style:italic;border-top:1px solid;border-bottom:0}small{opacity:.7}"
    ".best{font-weight:700}.second{text-decoration:underline}.warning{color:#b3261e}";

std::string html_cell(const ShownCell& cell, const ColumnStyle& style) {
  ShownCell plain = cell;
  plain.mark.clear();
  const bool text = std::holds_alternative<std::string>(cell.value);
  std::string title = std::holds_alternative<int64_t>(cell.n) ? concat("n = ", std::get<int64_t>(cell.n)) : "";
  if (!cell.keys.empty()) title += (title.empty() ? "cells " : "; cells ") + join(cell.keys, " ");
  std::string html = text ? "<td class=\"text\"" : "<td";
  if (!title.empty()) html += " title=\"" + escape_html(title) + "\"";
  auto value = escape_html(shown_value(plain, style));
  if (cell.rank == Rank::kBest) value = "<span class=\"best\">" + value + "</span>";
  if (cell.rank == Rank::kSecond) value = "<span class=\"second\">" + value + "</span>";
  if (!cell.mark.empty()) value += "<sup>" + escape_html(cell.mark) + "</sup>";
  const auto interval = shown_interval(cell, style);
  if (!interval.empty()) value += "<small>" + escape_html(interval) + "</small>";
  return html + ">" + value + "</td>";
}

std::string head(const PaperTable& table) {
  std::string groups = "<tr><td></td>", names = "<tr><th scope=\"col\">" + escape_html(table.row_heading) + "</th>";
  bool any_group = false;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto& [id, group, style, printed] = table.columns[i];
    names += "<th scope=\"col\">" + escape_html(style.label) +
             (style.unit.empty() ? "" : " [" + escape_html(style.unit) + "]") + "</th>";
    if (i > 0 && !group.empty() && table.columns[i - 1].group == group) continue;
    size_t n = 1;
    while (!group.empty() && i + n < table.columns.size() && table.columns[i + n].group == group) ++n;
    any_group = any_group || !group.empty();
    groups += group.empty() ? "<td></td>" : concat("<th colspan=\"", n, "\">", escape_html(group), "</th>");
  }
  return "<thead>\n" + (any_group ? groups + "</tr>\n" : "") + names + "</tr>\n</thead>\n";
}

std::string html_rows(const PaperTable& table) {
  std::string html = "<tbody>\n", group;
  for (const auto& row : table.rows) {
    if (row.group != group) {
      html += concat("<tr class=\"group\"><th colspan=\"", table.columns.size() + 1, "\">", escape_html(row.group),
                     "</th></tr>\n");
      group = row.group;
    }
    html += "<tr><th scope=\"row\">" + escape_html(row.name) + "</th>";
    for (size_t i = 0; i < table.columns.size(); ++i) html += html_cell(row.cells[i], table.columns[i].style);
    html += "</tr>\n";
  }
  return html + "</tbody>\n";
}

}  // namespace

std::string write_html(const PaperTable& table, bool standalone) {
  std::string html = "<table>\n<caption>" + escape_html(table.title);
  for (const auto& warning : table.warnings) html += "<br><span class=\"warning\">" + escape_html(warning) + "</span>";
  html += "</caption>\n" + head(table) + html_rows(table) + "</table>\n";
  if (!table.notes.empty()) html += "<ul>\n";
  for (const auto& note : table.notes) html += "<li>" + escape_html(note) + "</li>\n";
  if (!table.notes.empty()) html += "</ul>\n";
  if (!standalone) return html;
  return concat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
                escape_html(table.title), "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n", html,
                "</body>\n</html>\n");
}

}  // namespace kvc
