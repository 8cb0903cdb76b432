// A small table in every format, as it must be written.
#include <nlohmann/json.hpp>
#include <regex>

#include "hand_made.h"

namespace kvc::test {
namespace {

PaperTable small_table() {
  PaperTable table{"a:1", "a < b", "method", {}, {}, {"baseline off"}, {"* from elsewhere"}};
  table.columns = {{"g/x", "g", {.label = "x", .unit = "%"}}, {"p", "", {.label = "printed"}, true}};
  table.rows = {{"m, 1", "", "m, 1", std::vector<ShownCell>(2)}, {"n", "", "n", std::vector<ShownCell>(2)}};
  table.rows[0].cells[0] = {1.0 / 3, 0.25, 0.5, int64_t{4}, {"k1", "k2"}};
  table.rows[0].cells[0].rank = ShownCell::Rank::kBest;
  table.rows[0].cells[1] = {std::string("54.76")};
  table.rows[0].cells[1].mark = "*";
  return table;
}

TEST(WriteTable, AsMarkdown) {
  EXPECT_EQ(write_markdown(small_table()),
            "**a < b. baseline off**\n\n"
            "| method |           g: x [%] | printed |\n"
            "| ------ | -----------------: | ------: |\n"
            "| m, 1   | **0.3** [0.2, 0.5] |  54.76* |\n"
            "| n      |                    |         |\n\n"
            "- * from elsewhere\n");
}

TEST(WriteTable, AsCsvWithFullPrecision) {
  EXPECT_EQ(write_csv(small_table()),
            "method,g: x [%],\"g: x [%], low\",\"g: x [%], high\",\"g: x [%], n\",printed\r\n"
            "\"m, 1\",0.3333333333333333,0.25,0.5,4,54.76*\r\n"
            "n,,,,,\r\n");
}

// A spreadsheet would compute what a model generated.
TEST(WriteTable, AsCsvWithoutFormulas) {
  Table table;
  table.columns = {{"=heading"}, {"text"}};
  for (const char* text : {"=1+1", "+x", "-2+3", "@a", "\tb", "-5", "+1.5e3", "a=b"})
    table.rows.push_back({-1.5, text});
  EXPECT_EQ(write_csv(table),
            "'=heading,text\r\n-1.5,'=1+1\r\n-1.5,'+x\r\n-1.5,'-2+3\r\n-1.5,'@a\r\n-1.5,'\tb\r\n-1.5,-5\r\n"
            "-1.5,+1.5e3\r\n-1.5,a=b\r\n");
}

TEST(WriteTable, AsJsonWithTheCellsOfEachFigure) {
  const auto json = nlohmann::json::parse(write_json(small_table()));
  const auto& cells = json["rows"][0]["cells"];
  EXPECT_EQ(cells["g: x [%]"]["value"], 1.0 / 3);
  EXPECT_EQ(cells["g: x [%]"]["cells"], (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(cells["g: x [%]"]["n"], 4);
  EXPECT_EQ(cells["printed"]["mark"], "*");
  EXPECT_TRUE(json["rows"][1]["cells"]["g: x [%]"]["value"].is_null());
  EXPECT_EQ(json["warnings"], (std::vector<std::string>{"baseline off"}));
}

// Every tag that is opened is closed, in order; no "<" or "&" of a text stands bare.
void check_html(const std::string& html) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-z]+)[^<>]*>)");
  for (std::sregex_iterator at(html.begin(), html.end(), tag), end; at != end; ++at) {
    const std::string name = (*at)[2];
    if (name == "meta" || name == "br") continue;
    if ((*at)[1].length() == 0) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << name;
    EXPECT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << open.back();
  const auto texts = std::regex_replace(html, tag, "");
  EXPECT_EQ(std::regex_replace(texts, std::regex("<!DOCTYPE html>"), "").find('<'), std::string::npos);
}

TEST(WriteTable, AsHtml) {
  const auto html = write_html(small_table(), true);
  check_html(html);
  EXPECT_NE(html.find("<caption>a &lt; b<br><span class=\"warning\">baseline off</span></caption>"), std::string::npos);
  EXPECT_NE(
      html.find("<td title=\"n = 4; cells k1 k2\"><span class=\"best\">0.3</span><small> [0.2, 0.5]</small></td>"),
      std::string::npos);
  EXPECT_NE(html.find("54.76<sup>*</sup>"), std::string::npos);
  for (const auto& section : hand_worked()) {
    HandMade made(section);
    check_html(write_html(made.table(), true));
  }
}

}  // namespace
}  // namespace kvc::test
