// LaTeX of every table: a checker of its structure, and a compilation where pdflatex is.
#include <cstdlib>
#include <fstream>
#include <regex>

#include "hand_made.h"
#include "kvc/check.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

// Unescaped "&" of a line, and the columns that its \multicolumn add.
size_t columns_of(const std::string& line) {
  size_t n = 1;
  for (size_t i = 0; i < line.size(); ++i) n += line[i] == '&' && (i == 0 || line[i - 1] != '\\');
  const std::regex multi(R"(\\multicolumn\{(\d+)\})");
  for (std::sregex_iterator at(line.begin(), line.end(), multi), end; at != end; ++at) n += std::stoul((*at)[1]) - 1;
  return n;
}

// Balanced braces and environments; every line of the tabular as wide as its column specification; bare specials
// nowhere.
void check_structure(const std::string& latex) {
  int depth = 0;
  for (size_t i = 0; i < latex.size(); ++i) {
    const bool escaped = i > 0 && latex[i - 1] == '\\' && !(i > 1 && latex[i - 2] == '\\');
    depth += latex[i] == '{' && !escaped ? 1 : latex[i] == '}' && !escaped ? -1 : 0;
    ASSERT_GE(depth, 0) << latex.substr(0, i);
    if (latex[i] == '#' || latex[i] == '_') {
      const bool math = latex[i] == '_' && i > 0 && latex[i - 1] == '$';
      EXPECT_TRUE(escaped || math) << latex.substr(i > 20 ? i - 20 : 0, 40);
    }
  }
  EXPECT_EQ(depth, 0);
  EXPECT_EQ(count(latex, "\\begin{"), count(latex, "\\end{"));
  for (const std::string rule : {"\\toprule", "\\bottomrule"}) EXPECT_EQ(count(latex, rule), 1) << rule;
  EXPECT_EQ(count(latex, "|"), 0);  // no vertical rules
  std::smatch alignment;
  ASSERT_TRUE(std::regex_search(latex, alignment, std::regex(R"(\\begin\{tabular\}\{([lr]+)\})")));
  std::istringstream lines(latex.substr(latex.find("\\toprule"), latex.find("\\bottomrule") - latex.find("\\toprule")));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with("\\\\")) EXPECT_EQ(columns_of(line), static_cast<size_t>(alignment[1].length())) << line;
  }
}

class Latex : public testing::TestWithParam<HandWorked> {};

TEST_P(Latex, IsWellFormed) {
  HandMade made(GetParam());
  auto table = made.table();
  check_structure(write_latex(table, true));
  const auto layout = find_layout(tables_folder(), GetParam().name);
  if (!fs::exists(layout.printed_file)) GTEST_SKIP() << "the paper's figures are not entered: " << layout.printed_file;
  add_printed(table, layout);
  check_structure(write_latex(table, true));
}

INSTANTIATE_TEST_SUITE_P(Papers, Latex, testing::ValuesIn(hand_worked()), [](const auto& info) {
  auto name = info.param.name;
  name.replace(name.find(':'), 1, "_");
  return name;
});

PaperTable hostile_table() {
  PaperTable table{"a:1", "100 % of {x}_1 & #2 ~ ^ $ \\ <>|\"", "row_%", {}, {}, {}, {}};
  table.columns = {{"a", "g_1", {.label = "a%"}}, {"b", "g_1", {.label = "b"}}, {"c", "", {.label = "c"}}};
  table.rows = {{"r", "gr&oup", "r_1 ✓", std::vector<ShownCell>(3)}};
  table.rows[0].cells[0] = {1.25, 1.0, 1.5};
  table.rows[0].cells[0].rank = ShownCell::Rank::kBest;
  table.rows[0].cells[1] = {std::string("é † 中")};
  table.rows[0].cells[1].mark = "#";
  table.notes = {"50 % is \\half"};
  return table;
}

TEST(LatexText, EscapesAllSpecialCharacters) {
  const auto latex = write_latex(hostile_table(), true);
  check_structure(latex);
  EXPECT_NE(latex.find("\\caption{100 \\% of \\{x\\}\\_1 \\& \\#2 \\textasciitilde{} \\textasciicircum{} \\$ "
                       "\\textbackslash{} \\textless{}\\textgreater{}\\textbar{}\\textquotedbl{}}"),
            std::string::npos)
      << latex;
  EXPECT_NE(latex.find("\\cmidrule(lr){2-3}"), std::string::npos);
  EXPECT_NE(latex.find("é $^\\dagger$ [U+4E2D]\\textsuperscript{\\#}"), std::string::npos) << latex;
  EXPECT_NE(latex.find("r\\_1 $\\surd$ & \\textbf{1.2}~[1.0, 1.5]"), std::string::npos) << latex;
}

bool has_pdflatex() { return std::system("command -v pdflatex >/dev/null && kpsewhich booktabs.sty >/dev/null") == 0; }

TEST(LatexText, CompilesAlone) {
  if (!has_pdflatex()) GTEST_SKIP() << "pdflatex with booktabs is not here (Debian: texlive-latex-recommended)";
  const TempFolder folder;
  // All tables in one document: starting TeX costs more than setting a table.
  std::string document = write_latex(hostile_table(), true), body;
  for (const auto& section : hand_worked()) {
    HandMade made(section);
    auto table = made.table();
    body += write_latex(table, false) + "\\clearpage\n";
    const auto layout = find_layout(tables_folder(), section.name);
    if (!fs::exists(layout.printed_file)) continue;
    add_printed(table, layout);
    body += write_latex(table, false) + "\\clearpage\n";
  }
  document.insert(document.find("\\end{document}"), "\\clearpage\n" + body);
  std::ofstream(folder / "t.tex") << document;
  const auto command =
      concat("cd '", folder.string(), "' && pdflatex -interaction=nonstopmode -halt-on-error t.tex >log.txt 2>&1");
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(folder / "log.txt");
  if (std::system("kpsewhich lmodern.sty >/dev/null && command -v pdffonts >/dev/null") != 0) {
    GTEST_SKIP() << "it compiled; its fonts are not looked at: lmodern or pdffonts is not here (Debian: lmodern, "
                    "poppler-utils)";
  }
  const auto listed = concat("pdffonts '", (folder / "t.pdf").string(), "' >'", (folder / "fonts.txt").string(), "'");
  ASSERT_EQ(std::system(listed.c_str()), 0);
  const auto fonts = read_file(folder / "fonts.txt");
  EXPECT_NE(fonts.find("Type 1"), std::string::npos) << fonts;
  EXPECT_EQ(fonts.find("Type 3"), std::string::npos) << fonts;
}

}  // namespace
}  // namespace kvc::test
