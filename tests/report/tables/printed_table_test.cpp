// Findings expected here were made by hand and by a script of another language, not by this code.
#include "tables/printed_table.h"

#include <fstream>

#include "../../store/store/store_fixture.h"

namespace kvc {
namespace {

PrintedTable paper(const std::string& name) {
  return load_printed_table(std::filesystem::path(KVC_SOURCE_DIR) / "results/external" / (name + ".yaml"));
}

TEST(PrintedTable, GearsAveragesButTwoAreTheirs) {
  const auto check = check_printed_table(paper("gear_table1"));
  EXPECT_EQ(check.n_averages, 10);
  ASSERT_EQ(check.averages.size(), 2u);
  EXPECT_EQ(check.averages[0].row, "per-token 4 bits, g 64");
  EXPECT_EQ(check.averages[0].printed.text, "31.94");
  EXPECT_EQ(check.averages[0].expected, "31.87 is the mean of 9 values");
  EXPECT_EQ(check.averages[1].row, "GEAR-L 2 bits (KIVI), r 4");
  EXPECT_EQ(check.averages[1].expected, "38.30 is the mean of 9 values");
}

TEST(PrintedTable, SomeOfGearsAccuraciesFitNoCount) {
  std::string gsm8k, aqua;
  for (const auto& finding : check_printed_table(paper("gear_table1")).counts) {
    (finding.column.ends_with("gsm8k") ? gsm8k : aqua) += finding.printed.text + " ";
    if (finding.printed.text == "54.76") EXPECT_EQ(finding.expected, "722/1319 is 54.738, 723/1319 is 54.814");
  }
  EXPECT_EQ(gsm8k, "30.34 31.47 45.59 21.14 30.31 54.76 30.27 ");  // in the order of rows
  EXPECT_EQ(aqua, "21.05 24.37 24.05 34.57 10.54 25.36 33.96 ");
}

TEST(PrintedTable, HalfOfDecoQuantsAveragesAreNot) {
  const auto check = check_printed_table(paper("decoquant_table3"));
  EXPECT_EQ(check.n_averages, 22);
  EXPECT_EQ(check.averages.size(), 11u);
  const auto worst = std::find_if(check.averages.begin(), check.averages.end(),
                                  [](const auto& finding) { return finding.printed.text == "66.2"; });
  ASSERT_NE(worst, check.averages.end());
  EXPECT_EQ(worst->expected, "51.6 is the mean of 5 values");
  EXPECT_EQ(check_printed_table(paper("decoquant_table2")).averages.size(), 3u);
}

// Every file is read; distances of quartiles, throughputs and averages are recomputed from the printed figures.
TEST(PrintedTable, AllFilesAreReadAndWhatTheyStateOfEachOtherHolds) {
  size_t n_files = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(KVC_SOURCE_DIR) / "results/external")) {
    EXPECT_FALSE(load_printed_table(file.path()).rows.empty()) << file.path();
    ++n_files;
  }
  EXPECT_EQ(n_files, 26u);
  for (const auto& row : paper("decoquant_table4").rows) {
    for (const size_t i : {0, 3}) {
      EXPECT_NEAR(*row.cells[i + 1].value - *row.cells[i].value, *row.cells[i + 2].value, 0.0021) << row.name;
    }
  }
  const auto speeds = paper("gear_table6");  // 500 new tokens a sequence
  ASSERT_EQ(speeds.rows.size(), 21u);
  for (const auto& row : speeds.rows) {
    const double seconds = *row.cells[1].value, speed = *row.cells[0].value * 500 / seconds;
    EXPECT_NEAR(*row.cells[3].value, speed, speed * 0.5 / seconds + 0.05) << row.name;
  }
  double sum = 0;
  const auto subsets = paper("gearx_table2");
  for (const auto& row : subsets.rows) sum += 100 * *row.cells[0].value;
  EXPECT_EQ(subsets.rows.size(), 27u);
  EXPECT_NEAR(sum / 27, *paper("gearx_table1").rows[5].cells[2].value, 0.005);  // 53.45, as Table 1 prints
  EXPECT_EQ(check_printed_table(paper("gear_table9")).n_averages, 10);
  EXPECT_EQ(check_printed_table(paper("gear_table9")).averages.size(), 0u);
}

TEST(PrintedTable, OthersSayWhatTheySay) {
  EXPECT_EQ(check_printed_table(paper("qjl_table1b")).averages.size(), 3u);  // all three are 0.25 above
  EXPECT_TRUE(check_printed_table(paper("gearx_table3")).averages.empty());  // 24.90, 24.66, 24.68
  EXPECT_EQ(paper("gearx_table1").rows[4].cells[0].mark, "*");
  EXPECT_EQ(check_printed_table(paper("tada_table2")).counts.size(), 8u);
  const auto table = findings_table({paper("gear_table1"), paper("gearx_table3")});
  EXPECT_EQ(table.rows.size(), 16u);  // 2 averages, 7 and 7 counts
  EXPECT_EQ(table.notes[1],
            "GEAR-X, Table 3: 0 of 3 averages do not match the published values; 0 of 0 accuracies match no number of "
            "right answers");
}

class PrintedFileTest : public StoreTest {
 protected:
  std::string error(const std::string& text) {
    const auto file = folder_ / "t.yaml";
    std::ofstream(file) << text;
    const auto message = message_of([&] { load_printed_table(file); });
    return message.starts_with(file.string()) ? message.substr(file.string().size()) : message;
  }
};

TEST_F(PrintedFileTest, RoundingAndCuttingBothFit) {  // 2/3 is 66.666...: 66.7 rounded, 66.6 cut; 66.5 and 66.8 neither
  const auto file = folder_ / "t.yaml";
  std::ofstream(file)
      << "source: s\nitem: i\ncolumns: {a: {questions: 3}}\n"
         "rows: {r: ['66.7'], c: ['66.6'], x: ['66.5'], y: ['66.8'], all: ['100'], none: ['0.0'], h: ['100.5']}\n";
  const auto check = check_printed_table(load_printed_table(file));
  EXPECT_EQ(check.n_counts, 7);
  ASSERT_EQ(check.counts.size(), 3u);
  EXPECT_EQ(check.counts[0].row, "x");
  EXPECT_EQ(check.counts[1].row, "y");
  EXPECT_EQ(check.counts[2].row, "h");  // more than all
}

TEST_F(PrintedFileTest, BadFilesAreRefusedWithTheirPlace) {
  const std::string head = "source: s\nitem: i\ncolumns: {a: {}, b: {mean_of: all}}\n";
  EXPECT_EQ(error(head + "rows: {r: ['1']}\n"), ":4:11: error: rows.r has 1 figures, expected 2");
  EXPECT_EQ(error(head + "rows: {r: ['1', '2*']}\n"),
            ":4:17: error: rows.r[1] is '2*', expected a number, with one of the marks, or N.A., /, ''");
  EXPECT_EQ(error(head + "rows: {r: ['1', '1.2.3']}\n"),
            ":4:17: error: rows.r[1] is '1.2.3', expected a number, with one of the marks, or N.A., /, ''");
  EXPECT_EQ(error("source: s\nitem: i\ncolumns: {a: {}, b: {mean_of: [c]}}\nrows: {}\n"),
            ":3:32: error: unknown column before it 'c'; known: a");
  EXPECT_EQ(error(head + "rows: {r: ['1', 'N.A.']}\n"), "no error");
  EXPECT_EQ(error(head + "rows: {r: ['-1.5', '-']}\n"),
            ":4:20: error: rows.r[1] is '-', expected a number, with one of the marks, or N.A., /, ''");
}

}  // namespace
}  // namespace kvc
