// Each table of the papers on a database made by hand, whose figures were worked out by hand.
#include "tables/paper_table.h"

#include <algorithm>
#include <set>

#include "hand_made.h"
#include "kvc/check.h"
#include "store/entries.h"
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

INSTANTIATE_TEST_SUITE_P(Papers, EachTable, testing::ValuesIn(hand_worked()), [](const auto& info) {
  auto name = info.param.name;
  name.replace(name.find(':'), 1, "_");
  return name;
});

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
      " options_label, generation_json, bits, 3, is_lossy, is_simulated, 'probe', '{}' FROM cell LIMIT 1;"
      "INSERT INTO experiment_cell SELECT experiment, 'p', 'Probed', 99 FROM experiment_cell LIMIT 1;"
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
