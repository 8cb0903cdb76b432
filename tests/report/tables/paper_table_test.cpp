// Each table of the papers on a database made by hand, whose figures were worked out by hand.
#include "tables/paper_table.h"

#include <algorithm>
#include <set>

#include "analysis/entries.h"
#include "analysis/query.h"
#include "hand_made.h"
#include "kvc/check.h"
#include "text/files.h"

namespace kvc::test {
namespace {

class EachTable : public testing::TestWithParam<HandWorked> {};

TEST_P(EachTable, IsWhatWasWorkedOutByHand) {
  HandMade made(GetParam());
  const auto lines = without_padding(write_markdown(made.table()));
  EXPECT_EQ(lines, GetParam().lines) << write_markdown(made.table());
}

// For readers that cannot make the temporary tables: the same rows from one statement.
TEST_P(EachTable, IsOneStatementForOthers) {
  HandMade made(GetParam());
  const auto sql = read_file(find_layout(tables_folder(), GetParam().name).sql_file);
  const auto alone = write_csv(run_query(made.db(), with_entries(sql, made.experiments())));
  make_entries(made.db(), made.experiments(), false);
  EXPECT_EQ(alone, write_csv(run_query(made.db(), sql)));
  EXPECT_GT(std::count(alone.begin(), alone.end(), '\n'), 1);
}

TEST_P(EachTable, IsOneStatementOfItsShape) {
  HandMade made(GetParam());
  const auto layout = find_layout(tables_folder(), GetParam().name);
  make_entries(made.db(), made.experiments(), false);
  const auto table = make_paper_table(made.db(), layout);
  const auto sql = write_sql(made.db(), table, layout, made.experiments());
  made.db().execute("DROP TABLE temp.entry; DROP TABLE temp.chosen");
  EXPECT_EQ(write_csv(run_query(made.db(), sql)), write_csv(table));
}

INSTANTIATE_TEST_SUITE_P(Papers, EachTable, testing::ValuesIn(hand_worked()), [](const auto& info) {
  auto name = info.param.name;
  name.replace(name.find(':'), 1, "_");
  return name;
});

// The statement and the CSV of gear:9 after `sql`.
class WideQuery : public testing::Test {
 protected:
  std::string statement() {
    make_entries(made_.db(), made_.experiments(), false);
    return write_sql(made_.db(), table(), layout_, made_.experiments());
  }
  PaperTable table() { return make_paper_table(made_.db(), layout_); }
  std::string run(const std::string& sql) { return write_csv(run_query(made_.db(), sql)); }

  HandMade made_{hand_worked("gear:9")};
  TableLayout layout_ = find_layout(tables_folder(), "gear:9");
};

TEST_F(WideQuery, QuotesWhatNamesHold) {
  made_.db().execute(
      "UPDATE experiment_cell SET label = 'it''s \"x\"; DROP TABLE cell; -- :a /* ' || label;"
      "UPDATE cell SET model = 'a''b\"c ' || model, task = 't''\"; ' || task");
  layout_.row_heading = "\"me'thod\"";
  const auto csv = run(statement());
  EXPECT_EQ(csv, write_csv(table()));
  EXPECT_NE(csv.find("it's \"\"x\"\"; DROP TABLE cell; -- :a /* KIVI"), std::string::npos) << csv;
  EXPECT_NE(csv.find("a'b\"\"c m"), std::string::npos) << csv;
}

// The caption of every format says it; gear:9's cells are of several models.
TEST(PaperTable, SaysWhichWeightsAreQuantized) {
  HandMade made(hand_worked("gear:9"));
  made.db().execute("UPDATE cell SET model_json = '{\"weights_format\":\"Q4_1, F32\"}', model = 'models/small'");
  const auto table = made.table();
  const std::string note = "weights quantized: Q4_1 (small)";
  EXPECT_EQ(table.warnings.front(), note);
  EXPECT_NE(write_markdown(table).find(note), std::string::npos);
  EXPECT_NE(write_json(table).find(note), std::string::npos);
  EXPECT_NE(write_html(table, false).find(note), std::string::npos);
  EXPECT_NE(write_latex(table, false).find("weights quantized: Q4\\_1 (small)"), std::string::npos)
      << write_latex(table, false);
}

TEST_F(WideQuery, ShowsRowsThatComeLaterBelow) {
  const auto sql = statement();
  made_.db().execute("UPDATE experiment_cell SET label = 'A new one' WHERE label = 'FP16'");
  const auto csv = run(sql);
  EXPECT_EQ(csv.rfind("\nA new one,"), csv.rfind('\n', csv.size() - 2)) << csv;
}

// And with them a row that has nothing else.
TEST_F(WideQuery, LeavesHiddenColumnsOut) {
  layout_.hidden = {"bits", "average", "gsm8k/cot8"};
  made_.db().execute(
      "DELETE FROM experiment_cell WHERE label = 'KIVI' AND cell_key IN (SELECT key FROM cell WHERE task GLOB "
      "'bbh/*')");
  const auto csv = run(statement());
  EXPECT_EQ(csv, write_csv(table()));
  EXPECT_EQ(csv.substr(0, csv.find('\n') + 5), "method,m: BBH,\"m: BBH, n\"\r\nFP16") << csv;
  EXPECT_EQ(csv.find("KIVI"), std::string::npos);
}

// Of two columns with one heading each has its own.
TEST_F(WideQuery, ShowsColumnsOfOneHeadingApart) {
  layout_.columns["average"].label = layout_.columns["bits"].label = "same";
  layout_.columns["average"].unit = layout_.columns["bits"].unit = "";
  const auto csv = run(statement());
  EXPECT_NE(csv.find("same"), std::string::npos);
  EXPECT_NE(csv.find("same (average)"), std::string::npos) << csv;
}

TEST_F(WideQuery, OfATableWithoutCellsIsItsLongRows) {
  made_.db().execute("DELETE FROM experiment_cell");
  EXPECT_EQ(statement(), with_entries(read_file(layout_.sql_file), made_.experiments()));
}

TEST(PaperTables, AreAllWorkedOut) {
  std::set<std::string> worked, known;
  for (const auto& section : hand_worked()) worked.insert(section.name);
  for (const auto& name : layout_names(tables_folder())) known.insert(name);
  EXPECT_EQ(worked, known);
}

// Of three probes asked for one failed, and none is there.
TEST(PaperTables, NameTheProbesThatFailed) {
  HandMade made(hand_worked().front());
  made.db().execute(
      "INSERT INTO cell SELECT 'p', model, 'demo/x', model_json, task_json, plugin, plugin_sha256, options_json,"
      " options_label, generation_json, bits, 3, is_lossy, is_simulated, 'probe', '{}', '' FROM cell LIMIT 1;"
      "INSERT INTO experiment_cell (experiment, cell_key, label, position) SELECT experiment, 'p', 'Probed', 99 FROM "
      "experiment_cell LIMIT 1;"
      "CREATE TEMP TABLE s AS SELECT * FROM sample LIMIT 1;"
      "UPDATE s SET cell_key = 'p', status = 'failed', error = 'out of memory'; INSERT INTO sample SELECT * FROM s");
  EXPECT_EQ(make_entries(made.db(), made.experiments(), false),
            std::vector<std::string>{"failed: 1 of 3 samples of Probed on demo/x"});
}

TEST(PaperTables, StandByPaperAndNumber) {
  const auto names = layout_names(tables_folder());
  const auto place = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  EXPECT_LT(place("gear:2"), place("gear:10"));
  EXPECT_LT(place("qjl:1b"), place("qjl:2"));
  EXPECT_LT(place("decoquant:5"), place("gear:1"));
}

}  // namespace
}  // namespace kvc::test
