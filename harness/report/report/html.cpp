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

// tone: "" or the classes of one
std::string table_cell(const TableCell& cell, const TableColumn& column, const std::string& tone, bool is_link) {
  const auto* text = std::get_if<std::string>(&cell);
  if (text && is_link) {
    return concat("<td><a href=\"", cell_link(*text), "\"><code class=\"k\">", escape_html(text->substr(0, 12)),
                  "</code></a></td>");
  }
  const bool is_long = text && text->size() > 30, is_right = column.align == TableColumn::Align::kRight && !is_long;
  const auto layout = is_right ? "r" : is_long && tone.empty() ? "long" : "";
  const auto css = concat(tone, tone.empty() || !*layout ? "" : " ", layout);
  const auto inside = std::holds_alternative<std::monostate>(cell) ? ""
                      : text                                       ? escape_html(*text)
                                                                   : number_text(cell, column.decimals);
  return concat("<td", css.empty() ? "" : " class=\"" + css + "\"", ">", inside, "</td>");
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
      const auto tone = table.tones.find({r, i});
      text += table_cell(row[i], table.columns[i], tone == table.tones.end() ? "" : class_of(tone->second),
                         static_cast<int>(i) == link_column);
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
