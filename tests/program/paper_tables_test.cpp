// `kvc table paper:name` and `kvc tables` on what a run has left: what is missing, and the command that fills it.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "program/stored.h"

namespace kvc::test {
namespace {

const std::string kConfig = std::string(KVC_SOURCE_DIR) + "/configs/papers/demo/gear_10.yaml";

TEST(PaperTable, NamesTheCommandThatFillsWhatIsMissing) {
  TempFolder folder;
  const auto db = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", kConfig, "--limit", "1", "--set", "tasks=[demo/swaps]", "--db", db}).exit_code,
            0);
  auto table = run_program(folder, {"table", "gear:10", "--db", db});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  const std::string command = "./kvc run configs/papers/demo/gear_10.yaml --db " + db +
                              " --limit 1 --set 'tasks=[demo/arithmetic, demo/truth]'";
  EXPECT_TRUE(has(table.out, "missing: 6 of 9 cells of gear_10_demo; " + command)) << table.out;
  EXPECT_TRUE(has(table.out, "| H2O ")) << table.out;
  EXPECT_TRUE(has(run_program(folder, {"tables", "--db", db}).out, "3 of 9")) << table.out;

  const auto set_n_samples = [&](int n) {
    ResultStore::open(db).database().execute("UPDATE cell SET n_samples = " + std::to_string(n));
  };
  set_n_samples(50);  // as the file asks
  table = run_program(folder, {"table", "gear:10", "--db", db});
  EXPECT_FALSE(has(table.out, "--limit")) << table.out;
  set_n_samples(1);

  ASSERT_EQ(
      run_program(folder, {"run", kConfig, "--db", db, "--limit", "1", "--set", "tasks=[demo/arithmetic, demo/truth]"})
          .exit_code,
      0);
  table = run_program(folder, {"table", "gear:10", "--db", db});
  EXPECT_FALSE(has(table.out, "missing")) << table.out;
  EXPECT_TRUE(has(run_program(folder, {"tables", "--db", db}).out, "9 of 9"));
  const auto trace = run_program(folder, {"table", "gear:10", "--db", db, "--trace", "--format", "csv"});
  EXPECT_TRUE(std::regex_search(trace.out, std::regex("H2O,demo: swaps,[0-9.]+,demo/swaps,h2o,[^\n]*,1,[0-9a-f]{64}")))
      << trace.out;
}

TEST(PaperTable, IsRefusedInOneLineWhereItCannotBe) {
  TempFolder folder;
  const auto db = (folder / "none.sqlite").string();
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const auto run = run_program(folder, arguments);
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_TRUE(has(run.err, message)) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  };
  refused({"table", "gear:11", "--db", db}, "unknown table 'gear:11' (did you mean 'gear:1'?); known: decoquant:1, ");
  refused({"table", "gear:1", "--db", db}, "there is no such file");
  refused({"table", "gear:1"}, "--db is missing");
  refused({"table", "validate", "gear:11"}, "unknown table 'gear:11' (did you mean 'gear:1'?)");
}

// GEAR's Table 1: 286.81/9 = 31.87 is printed as 31.94, 344.72/9 = 38.30 as 38.34.
TEST(PaperTable, ChecksWhatIsPrinted) {
  TempFolder folder;
  const auto run = run_program(folder, {"table", "validate", "gear:1"});
  EXPECT_TRUE(has(run.out, "31.87 is the mean of 9 values")) << run.out;
  EXPECT_TRUE(has(run.out, "2 of 10 averages")) << run.out;
  const auto file = std::string(KVC_SOURCE_DIR) + "/results/external/gear_table1.yaml";
  for (const auto& words : std::vector<std::vector<std::string>>{{"table", "gear:1", "--check"},
                                                                 {"table", "--check", "gear:1"},
                                                                 {"table", "validate", file},
                                                                 {"check", file}}) {
    EXPECT_EQ(run_program(folder, words).out, run.out) << words[1];
  }
}

}  // namespace
}  // namespace kvc::test
