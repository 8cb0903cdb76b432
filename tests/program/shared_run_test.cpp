// Two runs of one experiment on one database; what others see of a run; an experiment that changed.
#include <gtest/gtest.h>
#include <signal.h>

#include "stored.h"

namespace kvc::test {
namespace {

int64_t run_now(const std::string& err) {  // "12 samples run now"
  const auto end = err.find(" samples run now");
  return end == std::string::npos ? -1 : std::stol(err.substr(err.rfind('\n', end) + 1));
}

class SharedRun : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 4 * 12;
  void SetUp() override {
    file_ = folder_.write("small.yaml", small_experiment(kFullAndKivi, 12)).string();
    ASSERT_EQ(run_program(folder_, {"run", file_, "--db", alone_}).exit_code, 0) << read_file(folder_ / "err");
  }
  std::vector<std::string> run() const { return {"run", file_, "--db", shared_, "--set", "batch_size=1"}; }

  TempFolder folder_, other_folder_;
  std::string file_;
  const std::string alone_ = (folder_ / "alone.sqlite").string(), shared_ = (folder_ / "shared.sqlite").string();
};

TEST_F(SharedRun, TwoProcessesComputeEachSampleOnce) {
  Program a(folder_, run()), b(other_folder_, run());
  const auto first = a.wait(), second = b.wait();
  ASSERT_EQ(first.exit_code, 0) << first.err;
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(run_now(first.err) + run_now(second.err), kSamples) << first.err << second.err;
  EXPECT_GT(run_now(first.err), 0);
  EXPECT_GT(run_now(second.err), 0);
  EXPECT_EQ(dump(shared_), dump(alone_));
  EXPECT_EQ(n_rows(shared_, "run") + n_rows(shared_, "claim"), 0);
}

TEST_F(SharedRun, WhatAKilledProcessHadTakenTheOtherComputes) {
  Program a(folder_, run());
  wait_for_rows(shared_, "claim", 1);
  Program b(other_folder_, run());
  wait_for_rows(shared_, "sample", 6);
  ::kill(a.pid(), SIGKILL);
  EXPECT_EQ(a.wait().signal, SIGKILL);
  const auto survivor = b.wait();
  EXPECT_EQ(survivor.exit_code, 0) << survivor.err;
  EXPECT_EQ(dump(shared_), dump(alone_));
}

TEST_F(SharedRun, StatusTellsOfARunThatLivesAndOfOneThatDied) {
  const auto status = [&] { return run_program(other_folder_, {"status", shared_}).out; };
  Program a(folder_, run());
  wait_for_rows(shared_, "sample", 4);
  const auto live = status();
  EXPECT_NE(live.find("process " + std::to_string(a.pid())), std::string::npos) << live;
  EXPECT_EQ(live.find("no run is active"), std::string::npos) << live;
  ::kill(a.pid(), SIGKILL);
  a.wait();
  const auto dead = status();
  EXPECT_NE(dead.find(" died, last seen "), std::string::npos) << dead;
  EXPECT_NE(dead.find("no run is active"), std::string::npos) << dead;
  const auto done = run_program(other_folder_, {"status", alone_, "--format", "json"}).out;
  EXPECT_NE(done.find("\"samples done\": 48"), std::string::npos) << done;
  EXPECT_NE(done.find("\"samples left\": 0"), std::string::npos) << done;
  EXPECT_EQ(run_program(other_folder_, {"status", (folder_ / "none.sqlite").string()}).exit_code, 2);
}

TEST_F(SharedRun, AnExperimentThatChangedSaysWhatAndShowsItsLastDefinition) {
  const auto changed =
      folder_.write("changed.yaml", small_experiment("  - full\n  - kivi: {bits: 4, group_size: 32, recent: 32}\n", 12))
          .string();
  const auto diff = run_program(folder_, {"diff", file_, changed});
  EXPECT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_EQ(diff.out.find("kivi.bits: 2 -> 4\n2 cells are the same, 2 only in "), 0u) << diff.out;
  EXPECT_EQ(run_program(folder_, {"diff", alone_, changed}).out.find("kivi.bits: 2 -> 4\n"), 0u);
  const auto again = run_program(folder_, {"run", changed, "--db", alone_});
  EXPECT_NE(again.err.find(" changed since it was run into this database: kivi.bits: 2 -> 4\n"), std::string::npos)
      << again.err;
  const auto table = run_program(folder_, {"table", "--db", alone_}).out;
  EXPECT_EQ(table.find("| kivi       |    2 |"), std::string::npos) << table;
  EXPECT_NE(table.find("| kivi       |    4 |"), std::string::npos) << table;
  EXPECT_NE(table.find("2 cells of an older definition are not shown; `--experiment "), std::string::npos) << table;
}

// By a pilot's rows where there are any, else by a trial; where there is neither, how to get one.
TEST_F(SharedRun, ADryRunSaysHowLongAndByWhat) {
  const auto plan = [&](const std::string& db, const std::string& set) {
    return run_program(folder_, {"run", file_, "--db", db, "--dry-run", "--set", set}).out;
  };
  const auto throws = folder_.write(
      "t.yaml", small_experiment("  - misbehaves: {how: throws_an_int, where: worker}\n") + "isolation: none\n");
  EXPECT_NE(plan(shared_, "seed=1").find(" with 1 worker, from a trial of "), std::string::npos);
  EXPECT_NE(plan(alone_, "limit=40").find(" with 1 worker, from the times of 48 samples in the database"),
            std::string::npos);
  EXPECT_NE(plan(alone_, "limit=12").find("about 0 s with 1 worker, nothing is missing"), std::string::npos);
  const auto none = run_program(folder_, {"run", throws.string(), "--db", shared_, "--dry-run"}).out;
  EXPECT_NE(none.find("no time estimate: "), std::string::npos) << none;
  EXPECT_NE(none.find("a few samples give one: `kvc run` with --limit 4"), std::string::npos) << none;
}

// Numbers in a label are those that ran.
TEST_F(SharedRun, ALabelSaysTheOptionsThatRan) {
  const auto run_label = [&](const std::string& label) {
    return run_program(
        folder_,
        {"run",
         folder_.write("l.yaml", small_experiment("  - kivi: {bits: 2}\n    label: \"" + label + "\"\n", 1)).string(),
         "--db", (folder_ / "l.sqlite").string()});
  };
  EXPECT_EQ(run_label("K {bits}, g {group_size}").exit_code, 0) << read_file(folder_ / "err");  // a default
  EXPECT_EQ(ResultStore::open_readonly(folder_ / "l.sqlite")
                .database()
                .integer("SELECT count(*) FROM experiment_cell JOIN cell ON key = cell_key WHERE label ="
                         " 'K ' || (options_json ->> 'bits') || ', g ' || (options_json ->> 'group_size')"),
            2);
  const auto bad = run_label("K {group_sise}");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("the label 'K {group_sise}': unknown option 'group_sise' (did you mean 'group_size'?)"),
            std::string::npos)
      << bad.err;
  EXPECT_NE(bad.err.find("l.yaml:"), std::string::npos) << bad.err;
  EXPECT_EQ(n_lines_of_kvc(bad.err), 1);
}

}  // namespace
}  // namespace kvc::test
