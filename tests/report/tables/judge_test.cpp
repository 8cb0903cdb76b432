// What a table says of itself: best figures, its baseline, printed figures beside ours, what it was made of.
#include <algorithm>
#include <fstream>

#include "analysis/entries.h"
#include "hand_made.h"
#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const auto& line) { return line.find(part) != std::string::npos; });
}

// GEAR's Table 1 prints 54.21 for Llama-3-8B on GSM8K; 2 of 4 are [15.0, 85.0], 4 of 4 are [51.0, 100.0].
const HandWorked kAsPrinted{
    "gear:1",
    {"e | FP16 | 0 | x/Meta-Llama-3-8B | gsm8k/cot8 | full | 16 | 2 | 100 | 100 | 10 | 20",
     "e | KCVT 4 bits | 1 | x/Meta-Llama-3-8B | gsm8k/cot8 | kcvt | 4 | 1 | 27 | 100 | 10 | 20"},
    {},
    {}};

TEST(Baseline, WithinItsIntervalIsNotRemarkedOn) {
  HandMade made(kAsPrinted);
  const auto table = made.table();
  EXPECT_TRUE(table.warnings.empty()) << table.warnings[0];
  EXPECT_FALSE(contains(table.notes, "published baseline"));
}

TEST(Baseline, OutsideItsIntervalIsSaidInTheCaption) {
  auto section = kAsPrinted;
  section.cells[0] = "e | FP16 | 0 | x/Meta-Llama-3-8B | gsm8k/cot8 | full | 16 | 0 | 100 | 100 | 10 | 20";
  HandMade made(section);
  const auto table = made.table();
  ASSERT_EQ(table.warnings.size(), 1);
  EXPECT_EQ(table.warnings[0],
            "baseline off: FP16 in Meta-Llama-3-8B/gsm8k/cot8 is 0.0 [0.0, 49.0], the paper prints 54.21");
  EXPECT_NE(write_markdown(table).find("[%]. baseline off: FP16"), std::string::npos);
  EXPECT_NE(write_latex(table, false).find("baseline off"), std::string::npos);
  EXPECT_NE(write_html(table, false).find("class=\"warning\""), std::string::npos);
}

TEST(Baseline, ThatIsMissingIsSaidInTheCaption) {
  auto section = kAsPrinted;
  section.cells.erase(section.cells.begin());
  EXPECT_EQ(HandMade(section).table().warnings, std::vector<std::string>{"baseline missing: no row FP16"});
  section.cells = kAsPrinted.cells;
  section.cells.push_back("e | KCVT 4 bits | 1 | x/Meta-Llama-3-8B | aqua/cot8 | kcvt | 4 | 1 | 27 | 100 | 10 | 20");
  const auto warnings = HandMade(section).table().warnings;
  EXPECT_TRUE(contains(warnings, "baseline missing: FP16 has no value in Meta-Llama-3-8B/aqua/cot8"));
}

TEST(Printed, StandsBesideOursAndTheRestAtTheEnd) {
  HandMade made(kAsPrinted);
  auto table = made.table();
  add_printed(table, find_layout(tables_folder(), "gear:1"));
  std::vector<std::string> ids;
  for (const auto& column : table.columns) ids.push_back(column.id + (column.printed ? "!" : ""));
  const std::vector<std::string> first{
      "bits",    "bits!",          "kv", "average KV size [%]!", "Meta-Llama-3-8B/gsm8k/cot8", "llama3-8b/gsm8k!",
      "average", "llama3-8b/aqua!"};
  EXPECT_EQ(std::vector<std::string>(ids.begin(), ids.begin() + 8), first);
  EXPECT_EQ(shown_value(table.rows[0].cells[5], {}), "54.21");
  EXPECT_EQ(shown_value(table.rows[1].cells[5], {}), "45.59");  // KCVT 4 bits
  const auto gear = std::find_if(table.rows.begin(), table.rows.end(),
                                 [](const auto& row) { return row.name == "GEAR 4 bits (KCVT), s 2 %, r 4"; });
  ASSERT_NE(gear, table.rows.end());  // a row that only the paper has
  EXPECT_EQ(shown_value(gear->cells[5], {}), "54.76");
  EXPECT_EQ(shown_value(gear->cells[4], {}), "");
}

TEST(Printed, MarksAreExplained) {
  const HandWorked section{"tada:2", {"e | BF16 | 0 | m | gsm8k/cot8 | full | 16 | 2 | 100 | 100 | 10 | 20"}, {}, {}};
  HandMade made(section);
  auto table = made.table();
  add_printed(table, find_layout(tables_folder(), "tada:2"));
  EXPECT_TRUE(contains(table.notes, "* taken from the published article"));
  EXPECT_NE(write_markdown(table).find("54.76*"), std::string::npos);
  EXPECT_NE(write_latex(table, false).find("54.76\\textsuperscript{*}"), std::string::npos);
  EXPECT_NE(write_html(table, false).find("54.76<sup>*</sup>"), std::string::npos);
}

TEST(Trace, NamesEveryCellAndItsSamples) {
  HandMade made(hand_worked("gear:9"));
  const auto trace = trace_table(made.db(), made.table());
  std::vector<std::string> keys;
  for (const auto& row : trace.rows) {
    if (std::get<std::string>(row[0]) == "KIVI" && std::get<std::string>(row[1]) == "m: BBH") {
      EXPECT_EQ(std::get<std::string>(row[2]), "10.0");
      EXPECT_EQ(std::get<int64_t>(row[6]), 4);
      keys.push_back(std::get<std::string>(row[7]));
    }
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"c5", "c6"}));
}

TEST(Entries, SuspectCellsAreLeftOutAndNamed) {
  auto section = kAsPrinted;
  section.sql = {"UPDATE cell SET is_lossy = 1", "UPDATE sample SET kv_bytes = 100 WHERE cell_key = 'c2'"};
  HandMade made(section);
  auto notes = make_entries(made.db(), made.experiments(), false);
  EXPECT_TRUE(
      contains(notes, "left out as suspect: KCVT 4 bits on gsm8k/cot8: the cache is not smaller than at 16 bits"));
  EXPECT_EQ(made.db().text("SELECT group_concat(label) FROM entry WHERE label <> 'FP16'"), "");
  notes = make_entries(made.db(), made.experiments(), true);
  EXPECT_EQ(made.db().text("SELECT group_concat(label) FROM entry WHERE label <> 'FP16'"), "KCVT 4 bits");
}

TEST(Entries, TasksThatFullPrecisionCannotDoAreLeftOutAndNamed) {
  auto section = kAsPrinted;
  section.sql = {"UPDATE score SET value = sample = 0 WHERE cell_key IN (SELECT key FROM cell WHERE is_lossy = 0)"};
  HandMade made(section);
  auto entries = [&](double min_baseline) {
    made.db().prepare("UPDATE experiment_cell SET min_baseline = ?").bind(1, min_baseline).run();
    return make_entries(made.db(), made.experiments(), false);
  };
  EXPECT_EQ(entries(25).size(), entries(0).size()) << "one right answer of four is not below";
  const auto n_rows = made.db().integer("SELECT count(*) FROM entry");
  EXPECT_TRUE(contains(entries(25.5), "full precision scores 25.0 %, below min_baseline 25.5"));
  EXPECT_LT(made.db().integer("SELECT count(*) FROM entry"), n_rows);
  const auto sql = with_entries("SELECT count(*) FROM entry WHERE at_floor <> ''", made.experiments());
  EXPECT_EQ(made.db().integer(sql), 0);
}

// Half points: scipy.stats.bootstrap gives 0.125 to 0.875 (BCa) for the mean of 0, 0.5, 0.5, 1.
TEST(Entries, GradedScoresHaveTheBootstrapsInterval) {
  auto section = kAsPrinted;
  section.sql = {"UPDATE score SET value = CASE sample WHEN 0 THEN 0 WHEN 3 THEN 1 ELSE 0.5 END WHERE position = 0"};
  HandMade made(section);
  make_entries(made.db(), made.experiments(), false);
  EXPECT_EQ(made.db().text("SELECT printf('%.2f %.2f %.2f', accuracy, low, high) FROM entry WHERE label = 'FP16'"),
            "50.00 12.50 87.50");
}

class Layouts : public testing::Test {
 protected:
  std::string load(const std::string& yaml) {
    folder_.write("paper/1.yaml", yaml);
    return message_of([&] { find_layout(folder_, "paper:1"); });
  }
  TempFolder folder_;
};

TEST_F(Layouts, AreRefusedInOneLine) {
  EXPECT_NE(load("title: t\ncolums: {}\n").find("1.yaml:2:1: error: unknown key 'colums' (did you mean 'columns'?)"),
            std::string::npos);
  EXPECT_NE(load("title: t\nvalues: {best: highest}\n").find("1.yaml:2:16: error: values.best is 'highest'"),
            std::string::npos);
  EXPECT_NE(load("title: t\n").find("1.sql' with its SQL"), std::string::npos);
  EXPECT_EQ(message_of([&] { find_layout(folder_, "paper:2"); }),
            "unknown table 'paper:2' (did you mean 'paper:1'?); known: paper:1");
}

TEST_F(Layouts, ThatMapAColumnThatIsNotPrintedAreRefused) {
  folder_.write("paper/1.sql", "SELECT 'FP16' AS row, 'c' AS \"column\", 1 AS value");
  EXPECT_EQ(load("title: t\nprinted: {file: x.yaml, columns: {gsm8: c}}\n"), "no error");
  auto layout = find_layout(folder_, "paper:1");
  layout.printed_file = tables_folder() / "../external/gear_table10.yaml";
  HandMade made(kAsPrinted);
  auto table = make_paper_table(made.db(), layout);
  EXPECT_NE(message_of([&] { add_printed(table, layout); }).find("unknown column 'gsm8' (did you mean 'gsm8k'?)"),
            std::string::npos);
}

TEST_F(Layouts, WithSqlThatGivesOneCellTwiceAreRefused) {
  folder_.write("paper/1.sql", "SELECT 'r' AS row, 'c' AS \"column\", column1 AS value FROM (VALUES (1), (2))");
  EXPECT_EQ(load("title: t\n"), "no error");
  HandMade made(kAsPrinted);
  EXPECT_EQ(message_of([&] { make_paper_table(made.db(), find_layout(folder_, "paper:1")); }),
            "table paper:1: row 'r', column 'c' has two values, 1 and 2");
  folder_.write("paper/1.sql", "SELECT 'r' AS rows, 'c' AS \"column\", 1 AS value");
  EXPECT_NE(
      message_of([&] { make_paper_table(made.db(), find_layout(folder_, "paper:1")); }).find("did you mean 'row'?"),
      std::string::npos);
}

}  // namespace
}  // namespace kvc::test
