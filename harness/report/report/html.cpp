#include "report/html.h"

#include <cctype>

#include "kvc/check.h"
#include "render/escape.h"
#include "render/numbers.h"
#include "report/svg.h"

namespace kvc {
namespace {

std::string number_text(const TableCell& cell, int decimals) {
  const auto* number = std::get_if<int64_t>(&cell);
  return number ? concat(*number) : rounded(std::get<double>(cell), decimals);
}

// A mark and a colour.
const char* class_of(TableTone tone) {
  return tone == TableTone::kGood ? "tone good" : tone == TableTone::kBad ? "tone bad" : "tone between";
}

std::string table_cell(const TableCell& cell, const TableColumn& column, bool is_link) {
  const std::string css = column.align == TableColumn::Align::kRight ? " class=\"r\"" : "";
  if (std::holds_alternative<std::monostate>(cell)) return "<td" + css + "></td>";
  const auto* text = std::get_if<std::string>(&cell);
  if (!text) return "<td" + css + ">" + number_text(cell, column.decimals) + "</td>";
  if (!is_link) return concat("<td", text->size() > 30 ? " class=\"long\"" : css, ">", escape_html(*text), "</td>");
  return concat("<td><a href=\"", cell_link(*text), "\"><code class=\"k\">", escape_html(text->substr(0, 12)),
                "</code></a></td>");
}

}  // namespace

std::string cell_anchor(const std::string& cell_key) {
  std::string anchor = "cell-";
  for (const char c : cell_key.substr(0, 12)) anchor += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return anchor;
}

std::string cell_link(const std::string& cell_key) { return "#" + cell_anchor(cell_key); }

std::string html_table(const Table& table, int link_column) {
  std::string text = "<div class=\"wide\"><table class=\"sortable\">";
  if (!table.title.empty()) text += "<caption>" + escape_html(table.title) + "</caption>";
  text += "<thead><tr>";
  for (const auto& column : table.columns) {
    const auto unit =
        column.unit.empty() ? std::string() : " <span class=\"unit\">" + escape_html(column.unit) + "</span>";
    text += concat("<th", column.align == TableColumn::Align::kRight ? " class=\"r\"" : "", "><button type=\"button\">",
                   escape_html(column.name), unit, "</button></th>");
  }
  text += "</tr></thead><tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      auto shown = table_cell(row[i], table.columns[i], static_cast<int>(i) == link_column);
      if (const auto tone = table.tones.find({r, i}); tone != table.tones.end()) {
        shown = concat("<td class=\"", class_of(tone->second), shown.starts_with("<td class=\"r\"") ? " r" : "", "\"",
                       shown.substr(shown.find('>')));
      }
      text += shown;
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (table.notes.empty()) return text;
  text += "<ul class=\"notes\">";
  for (const auto& note : table.notes) text += "<li>" + escape_html(note) + "</li>";
  return text + "</ul>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& body) {
  return concat("<section id=\"", id, "\"><h2>", escape_html(heading), "</h2>\n", body, "</section>\n");
}

std::string script_json(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace kvc
