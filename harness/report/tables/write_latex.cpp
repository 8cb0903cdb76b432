// Tables of papers as LaTeX with booktabs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>

#include "kvc/check.h"
#include "tables/paper_table.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Rank = ShownCell::Rank;

// The ten special characters, and the signs of marks and labels that a plain text font lacks.
const std::map<std::string, std::string> kSpellings{{"\\", "\\textbackslash{}"},
                                                    {"{", "\\{"},
                                                    {"}", "\\}"},
                                                    {"$", "\\$"},
                                                    {"&", "\\&"},
                                                    {"#", "\\#"},
                                                    {"%", "\\%"},
                                                    {"_", "\\_"},
                                                    {"~", "\\textasciitilde{}"},
                                                    {"^", "\\textasciicircum{}"},
                                                    {"<", "\\textless{}"},
                                                    {">", "\\textgreater{}"},
                                                    {"|", "\\textbar{}"},
                                                    {"\"", "\\textquotedbl{}"},
                                                    {"\n", " "},
                                                    {"†", "$^\\dagger$"},
                                                    {"‡", "$^\\ddagger$"},
                                                    {"✓", "$\\surd$"},
                                                    {"✗", "$\\times$"},
                                                    {"×", "$\\times$"},
                                                    {"–", "--"},
                                                    {"≥", "$\\ge$"},
                                                    {"≤", "$\\le$"},
                                                    {"ρ", "$\\rho$"},
                                                    {"₂", "$_2$"},
                                                    {"−", "$-$"},
                                                    {"→", "$\\to$"}};

// "[U+4E2D]"
std::string code_point_name(char32_t c) {
  char text[32];
  std::snprintf(text, sizeof text, "[U+%04X]", static_cast<unsigned>(c));
  return text;
}

// Latin letters stay as they are (inputenc knows them); any other character has to be spelled above.
std::string escaped(const std::string& text) {
  std::string latex;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const auto one = text.substr(at, point.n_bytes);
    at += point.n_bytes;
    const auto found = kSpellings.find(one);
    if (found != kSpellings.end()) {
      latex += found->second;
    } else if (point.value >= ' ' && point.value < 0x180) {
      latex += one;
    } else {
      latex += code_point_name(point.value);  // no font of a small TeX has it
    }
  }
  return latex;
}

std::string latex_cell(const ShownCell& cell, const ColumnStyle& style) {
  ShownCell plain = cell;
  plain.mark.clear();
  auto text = escaped(shown_value(plain, style));
  if (cell.rank == Rank::kBest) text = "\\textbf{" + text + "}";
  if (cell.rank == Rank::kSecond) text = "\\underline{" + text + "}";
  if (!cell.mark.empty()) text += "\\textsuperscript{" + escaped(cell.mark) + "}";
  const auto interval = shown_interval(cell, style);
  return interval.empty() ? text : text + "~" + escaped(interval.substr(1));
}

struct Span {
  size_t first, n;  // columns, from 0
  std::string group;
};

std::vector<Span> spans_of(const std::vector<ShownColumn>& columns) {
  std::vector<Span> spans;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!spans.empty() && !columns[i].group.empty() && spans.back().group == columns[i].group) {
      ++spans.back().n;
    } else {
      spans.push_back({i, 1, columns[i].group});
    }
  }
  return spans;
}

// The line of the columns' groups, and the rules below each of them.
std::string group_line(const PaperTable& table) {
  std::string names, rules;
  for (const auto& span : spans_of(table.columns)) {
    names += " & ";
    if (span.group.empty()) continue;
    names += concat("\\multicolumn{", span.n, "}{c}{", escaped(span.group), "}");
    rules += concat("\\cmidrule(lr){", span.first + 2, "-", span.first + span.n + 1, "}");
  }
  return rules.empty() ? "" : names + " \\\\\n" + rules + "\n";
}

std::string heading_line(const PaperTable& table) {
  auto line = escaped(table.row_heading);
  for (const auto& column : table.columns) {
    line += " & " + escaped(column.style.label);
    if (!column.style.unit.empty()) line += " [" + escaped(column.style.unit) + "]";
  }
  return line + " \\\\\n";
}

std::string latex_rows(const PaperTable& table) {
  std::string lines, group;
  for (const auto& row : table.rows) {
    if (row.group != group) {
      if (!lines.empty()) lines += "\\midrule\n";
      const auto heading = escaped(row.group);
      lines += concat("\\multicolumn{", table.columns.size() + 1, "}{l}{\\textit{", heading, "}} \\\\\n");
      group = row.group;
    }
    lines += escaped(row.name);
    for (size_t i = 0; i < table.columns.size(); ++i) {
      lines += " & " + latex_cell(row.cells[i], table.columns[i].style);
    }
    lines += " \\\\\n";
  }
  return lines;
}

std::string notes_of(const PaperTable& table) {
  std::string text;
  for (const auto& note : table.notes) text += "\\par\\noindent " + escaped(note) + ".\n";
  return text.empty() ? "" : "\\vspace{1ex}\\begin{minipage}{\\linewidth}\\footnotesize\n" + text + "\\end{minipage}\n";
}

bool is_text_column(const PaperTable& table, size_t i) {
  return !table.columns[i].printed && std::any_of(table.rows.begin(), table.rows.end(), [&](const ShownRow& row) {
    return std::holds_alternative<std::string>(row.cells[i].value);
  });
}

// Whether a row takes more characters than a column of a paper with two has room for in \footnotesize.
bool is_wide(const PaperTable& table) {
  constexpr size_t kColumn = 58, kBetween = 3;
  const auto width_of = [](const std::string& text) { return n_code_points(text) + kBetween; };
  size_t width = width_of(table.row_heading);
  for (const auto& row : table.rows) width = std::max(width, width_of(row.name));
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto& style = table.columns[i].style;
    size_t widest = width_of(column_heading(table.columns[i]));
    for (const auto& row : table.rows) {
      widest = std::max(widest, width_of(shown_value(row.cells[i], style) + shown_interval(row.cells[i], style)));
    }
    width += widest;
  }
  return width > kColumn;
}

}  // namespace

std::string write_latex(const PaperTable& table, bool standalone) {
  std::string alignment = "l", caption = table.title;
  for (size_t i = 0; i < table.columns.size(); ++i) alignment += is_text_column(table, i) ? "l" : "r";
  for (const auto& warning : table.warnings) caption += ". " + warning;
  std::string text = standalone ? "\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[T1]{fontenc}\n"
                                  "\\IfFileExists{lmodern.sty}{\\usepackage{lmodern}}{}\n"
                                  "\\usepackage{booktabs,graphicx}\n\\usepackage[landscape,margin=1.5cm]{geometry}\n"
                                  "\\begin{document}\n"
                                : "% \\usepackage{booktabs,graphicx,lmodern}, and \\usepackage[T1]{fontenc}\n";
  const std::string table_of = is_wide(table) ? "table*" : "table";  // across both columns, where a paper has two
  text += concat("\\begin{", table_of, "}[ht]\n\\centering\\footnotesize\n\\caption{", escaped(caption), "}\n");
  text += "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n";
  text += "\\begin{tabular}{" + alignment + "}\n\\toprule\n" + group_line(table) + heading_line(table) + "\\midrule\n" +
          latex_rows(table) + "\\bottomrule\n\\end{tabular}}\n" + notes_of(table) + "\\end{" + table_of + "}\n";
  return standalone ? text + "\\end{document}\n" : text;
}

}  // namespace kvc
