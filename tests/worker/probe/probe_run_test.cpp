// Probes as a user runs them.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"
#include "support/stable_dump.h"

namespace kvc::test {
namespace {

std::string probe_experiment(const std::string& compressors, const std::string& probe = "measures: [rel_fro, kl]") {
  return small_experiment(compressors, 2) + "kind: probe\nprobe: {" + probe + "}\n";
}

int64_t integer(const std::filesystem::path& database, const std::string& sql) {
  return ResultStore::open_readonly(database).database().integer(sql);
}

TEST(ProbeRun, APluginThatHidesABufferFailsAndLeavesTheFailedSampleAlone) {
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
  EXPECT_NE(run.err.find("8 samples run now (4 failed), 0 already stored"), std::string::npos) << run.err;
  EXPECT_EQ(integer(database,
                    "SELECT count(*) FROM sample JOIN cell ON key = cell_key JOIN text ON sha256 = prompt_sha256"
                    " WHERE plugin = 'hides_bytes' AND status = 'failed' AND error LIKE '%every buffer%'"
                    " AND body LIKE '%Q: %' AND gold <> ''"),
            4);
  EXPECT_EQ(integer(database, "SELECT count(*) FROM sample"), 4);
  const auto table = run_program(folder, {"table", "probe", "--db", database.string(), "--format", "csv"});
  EXPECT_NE(table.out.find(",demo/truth,hides_bytes,defaults,0,2,"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find(",demo/truth,full,defaults,2,0,"), std::string::npos) << table.out;
  const auto again = run_program(folder, {"run", file, "--db", database.string()});
  EXPECT_EQ(again.exit_code, 4);
  EXPECT_NE(again.err.find("4 samples run now (4 failed), 4 already stored"), std::string::npos) << again.err;
}

// What takes a failed probe's place leaves no trace of it.
TEST(ProbeRun, AFailedProbeIsRunAgainAndItsRowGoes) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - kivi\n")).string();
  const auto database = folder / "r.sqlite";
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database.string()}).exit_code, 0);
  const auto before = [&] { return stable_dump(ResultStore::open_readonly(database).database()); }();
  {
    auto store = ResultStore::open(database);
    const auto key = store.database().text("SELECT min(cell_key) FROM probe");
    SampleRecord failed;
    failed.cell_key = key;
    failed.status = "failed";
    failed.error = "out of memory";
    EXPECT_EQ(store.put_sample(failed), ResultStore::Put::kIsThere);  // another run was faster, and did not fail
    store.database().execute("DELETE FROM probe WHERE sample = 0 AND cell_key = '" + key + "'");
    EXPECT_EQ(store.put_sample(failed), ResultStore::Put::kStored);
  }
  const auto again = run_program(folder, {"run", file, "--db", database.string()});
  EXPECT_NE(again.err.find("1 samples run now (0 failed), 3 already stored"), std::string::npos) << again.err;
  EXPECT_EQ(stable_dump(ResultStore::open_readonly(database).database()), before);
}

TEST(ProbeRun, ALimitIsOfPrompts) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", probe_experiment("  - kivi\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string(), "--limit", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("2 samples run now (0 failed), 0 already stored"), std::string::npos) << run.err;
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
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << again.err;
  const auto eval = folder.write("e.yaml", small_experiment("  - kivi\n", 2)).string();
  const auto evaluated = run_program(folder, {"run", eval, "--db", database});
  EXPECT_NE(evaluated.err.find("4 samples run now (0 failed), 0 already stored"), std::string::npos) << evaluated.err;
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
  EXPECT_NE(run.err.find("x.yaml:10:"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("'rel_fr'"), std::string::npos) << run.err;
  const auto eval = folder.write("e.yaml", small_experiment("  - full\n") + "probe: {}\n").string();
  const auto refused = run_program(folder, {"run", eval, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("probe is of kind probe"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace kvc::test
