// Probes as a user runs them.
#include <gtest/gtest.h>

#include "../run/program.h"
#include "store/result_store.h"

namespace kvc::test {
namespace {

std::string probe_experiment(const std::string& compressors, const std::string& probe = "measures: [rel_fro, kl]") {
  return small_experiment(compressors, 2) + "kind: probe\nprobe: {" + probe + "}\n";
}

int64_t integer(const std::filesystem::path& database, const std::string& sql) {
  return ResultStore::open_readonly(database).database().integer(sql);
}

TEST(ProbeRun, APluginThatHidesABufferFailsAndLeavesNoRow) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - hides_bytes\n  - full\n")).string();
  const auto database = folder / "r.sqlite";
  const auto run = run_program(folder, {"run", file, "--db", database.string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("footprint() must count every buffer"), std::string::npos) << run.err;
  EXPECT_EQ(integer(database,
                    "SELECT count(DISTINCT sample) FROM probe JOIN cell ON key = cell_key"
                    " WHERE plugin = 'hides_bytes'"),
            0);
  EXPECT_EQ(integer(database, "SELECT count(*) FROM (SELECT DISTINCT cell_key, sample FROM probe)"), 4);
}

TEST(ProbeRun, APluginThatCrashesCostsItsOwnProbes) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - full\n  - crashes\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("killed by signal 6"), std::string::npos) << run.err;
  EXPECT_EQ(integer(folder / "r.sqlite", "SELECT count(*) FROM (SELECT DISTINCT cell_key, sample FROM probe)"), 4);
}

TEST(ProbeRun, WhatIsThereIsNotRunAgainAndTakesNoEvalCellsPlace) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - kivi\n")).string();
  const auto database = (folder / "r.sqlite").string();
  EXPECT_EQ(run_program(folder, {"run", file, "--db", database}).exit_code, 0);
  const auto again = run_program(folder, {"run", file, "--db", database});
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 were there"), std::string::npos) << again.err;
  const auto eval = folder.write("e.yaml", small_experiment("  - kivi\n", 2)).string();
  const auto evaluated = run_program(folder, {"run", eval, "--db", database});
  EXPECT_NE(evaluated.err.find("4 samples run now (0 failed), 0 were there"), std::string::npos) << evaluated.err;
}

// An answer of one token has no step to be read: the probe took the stored one.
TEST(ProbeRun, ReadsTheAnswerThatTheDatabaseHolds) {
  TempFolder folder;
  const auto database = folder / "r.sqlite";
  const auto eval = folder.write("e.yaml", small_experiment("  - full\n", 2)).string();
  ASSERT_EQ(run_program(folder, {"run", eval, "--db", database.string()}).exit_code, 0);
  ResultStore::open(database).database().execute("UPDATE sample SET token_ids_json = '[5,6,7]' WHERE sample = 0");
  const auto file = folder.write("x.yaml", probe_experiment("  - kivi\n", "measures: [kl]")).string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database.string()}).exit_code, 0);
  EXPECT_EQ(integer(database, "SELECT count(*) FROM probe WHERE sample = 0 AND measure = 'kl'"),
            2 * 2);  // tasks, steps
}

TEST(ProbeRun, RefusesWhatItDoesNotMeasureWithThePlace) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - full\n", "measures: [rel_fr]")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("x.yaml:9:"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("'rel_fr'"), std::string::npos) << run.err;
  const auto eval = folder.write("e.yaml", small_experiment("  - full\n") + "probe: {}\n").string();
  const auto refused = run_program(folder, {"run", eval, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("probe is of kind probe"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace kvc::test
