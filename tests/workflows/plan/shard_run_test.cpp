// Shards of a plan, run one by one, stopped, started again and looked at.
#include <signal.h>

#include "grid_fixture.h"
#include "plan/plan_status.h"
#include "plan/run_shard.h"

namespace kvc::test {
namespace {

using testing::HasSubstr;

TEST_F(GridTest, ShardsTogetherAreTheRunWithoutThem) {
  plan({"--shards", "3"}, 4);
  ASSERT_EQ(planned.shards.size(), 3u);
  for (size_t s = 0; s < 3; ++s) {
    const auto done = run_shard(s);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_THAT(done.err, HasSubstr("samples run now (0 failed), 0 already stored"));
  }
  const auto again = run_shard(1);
  EXPECT_THAT(again.err, HasSubstr("0 samples run now (0 failed)"));
  const auto merged = merge(folder / "merged.sqlite");
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(dump(folder / "merged.sqlite"), undisturbed());
}

TEST_F(GridTest, OnlyWhatIsMissingIsPlanned) {
  plan({"--shards", "2"}, 4);
  ASSERT_EQ(run_shard(0).exit_code, 0);
  const auto there = planned.database_of(0);
  const auto whole = planned;
  file = folder / "rest.json";
  plan({"--shards", "2", "--missing", there.string()}, 6);  // two samples more of each task
  int64_t n_left = 0, n_all = 0;
  std::set<std::string> partial;
  for (const auto& cell : planned.cells) {
    n_left += cell.n_samples, n_all += 6;
    if (cell.n_samples == 2) partial.insert(cell.key);
  }
  EXPECT_EQ(partial.size(), whole.shards[0].size());
  EXPECT_EQ(n_left, n_all - 4 * static_cast<int64_t>(whole.shards[0].size()));
  for (size_t s = 0; s < planned.shards.size(); ++s) EXPECT_EQ(run_shard(s).exit_code, 0);
  std::vector<std::string> words{"merge", (folder / "merged.sqlite").string(), there.string()};
  for (size_t s = 0; s < planned.shards.size(); ++s) words.push_back(planned.database_of(s).string());
  const auto merged = run_program(folder, words);
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(dump(folder / "merged.sqlite"), undisturbed());
}

class Stopped : public GridTest, public testing::WithParamInterface<int> {};

TEST_P(Stopped, BringsWhatIsDoneAndGoesOnFromThere) {
  constexpr int64_t kAll = 8 * 2 * 3;  // samples, tasks, compressors
  plan({"--shards", "1"}, 8);
  Program program(folder, {"run", "--plan", file.string(), "--shard", "0/1"});
  ASSERT_TRUE(wait_for([&] { return at_work(0); }, 30));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(program.pid(), GetParam());
  const auto ended = program.wait();
  EXPECT_EQ(ended.exit_code, GetParam() == SIGINT ? 130 : 75) << ended.err;
  EXPECT_EQ(state_of(0).state, "stopped");
  const auto n_before =
      ResultStore::open_readonly(planned.database_of(0)).database().integer("SELECT count(*) FROM sample");
  EXPECT_LT(n_before, kAll);
  const auto rest = run_shard(0);
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr(std::to_string(kAll - n_before) + " samples run now (0 failed), " +
                                  std::to_string(n_before) + " already stored"));
  EXPECT_EQ(dump(planned.database_of(0)), undisturbed());
}
INSTANTIATE_TEST_SUITE_P(Signals, Stopped, testing::Values(SIGUSR1, SIGTERM, SIGINT));

TEST_F(GridTest, AnExperimentThatChangedSinceIsRefusedAndNotRun) {
  plan({"--shards", "2"}, 2);
  folder.write("small.yaml", small_experiment("  - full\n  - kivi: {bits: 4, group_size: 16}\n", 2));
  const auto ended = run_shard(0);
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_EQ(n_lines_of_kvc(ended.err), 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("that was planned"));
}

TEST_F(GridTest, WrongCommandsAreToldInOneLine) {
  plan({"--shards", "2"}, 1);
  const auto said = [&](std::vector<std::string> words) {
    const auto ended = run_program(folder, words);
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(n_lines_of_kvc(ended.err), 1) << ended.err;
    return ended.err;
  };
  const auto p = file.string();
  EXPECT_THAT(said({"run", "--plan", p, "--shard", "2/2"}), HasSubstr("expected 0/2 to 1/2"));
  EXPECT_THAT(said({"run", "--plan", p}), HasSubstr("expected --shard I/2"));
  EXPECT_THAT(said({"run", "x.yaml", "--plan", p}), HasSubstr("expected no file"));
  EXPECT_THAT(said({"run", "--plan", p, "--shard", "0/2", "--limit", "1"}), HasSubstr("expected no --set, --limit"));
  EXPECT_THAT(said({"run", "--shard", "0/2"}), HasSubstr("needs --plan"));
  EXPECT_THAT(said({"run"}), HasSubstr("file is required"));
  EXPECT_THAT(said({"plan", experiment.string()}), HasSubstr("expected --shards or --hours"));
  EXPECT_THAT(said({"plan", experiment.string(), "--shards", "2", "--cluster", "north", "--clusters", "none.yaml"}),
              HasSubstr("none.yaml"));
  EXPECT_THAT(said({"plan", "configs/bench_demo.yaml", "--shards", "2"}),
              HasSubstr("kind is bench, a plan takes eval"));
}

TEST_F(GridTest, ACellThatNoMachineHoldsIsRefusedByName) {
  plan({"--shards", "1"}, 1);
  const auto clusters = folder.write("clusters.yaml", "north: {classes: {tiny: {memory: 1GB}}}\n");
  const auto ended = run_program(
      folder, {"plan", experiment.string(), "--shards", "2", "--cluster", "north", "--clusters", clusters.string()});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("cluster 'north' has at most 1000000000 (class tiny)"));
}

// A plan of 10,000 cells in 200 shards, half of them done.
TEST(PlanStatus, OfTenThousandCellsTakesUnderASecond) {
  const TempFolder folder;
  Plan plan;
  plan.name = "large", plan.folder = folder.string();
  plan.experiments.resize(1);
  plan.shards.resize(200);
  for (size_t c = 0; c < 10'000; ++c) {
    PlannedCell cell;
    cell.key = "key" + std::to_string(c), cell.n_samples = 2;
    plan.cells.push_back(cell);
    plan.shards[c % 200].push_back(c);
  }
  for (size_t s = 0; s < 200; ++s) {
    auto db = Database::open(plan.database_of(s), Database::Mode::kReadWrite, 0);
    db.execute("PRAGMA synchronous = off; CREATE TABLE sample (cell_key, sample, status)");
    Transaction transaction(db);
    for (size_t i = 0; i < plan.shards[s].size(); i += 2) {
      for (int sample = 0; sample < 2; ++sample) {
        db.prepare("INSERT INTO sample VALUES (?, ?, ?)")
            .bind(1, plan.cells[plan.shards[s][i]].key)
            .bind(2, int64_t{sample})
            .bind(3, std::string(i == 0 ? "failed" : "ok"))
            .run();
      }
    }
    transaction.commit();
    ShardState state;
    state.state = s == 0 ? "running" : s == 1 ? "failed" : s == 2 ? "running" : "stopped", state.host = "n1";
    state.started_at = 1000, state.seen_at = s == 2 ? 1500 : 2800, state.n_done = 50, state.message = "why";
    folder.write("shard-" + std::to_string(s) + ".json", nlohmann::json(state).dump());
  }
  folder.write("logs/shard-1.log", "first\nlast words\n");
  const auto start = std::chrono::steady_clock::now();
  const auto table = plan_status_table(plan, 2800);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 1);
  ASSERT_EQ(table.rows.size(), 1u);
  const auto number = [&](size_t column) { return std::get<int64_t>(table.rows[0][column]); };
  EXPECT_EQ(number(1), 200 * 24);  // done
  EXPECT_EQ(number(2), 25);        // running: of shard 0
  EXPECT_EQ(number(3), 200);       // failed
  EXPECT_EQ(number(4), 10'000 - 200 * 24 - 25 - 200);
  EXPECT_EQ(number(8), 100);  // samples an hour: 50 in 1800 s
  const auto notes = join(table.notes, "\n");
  EXPECT_THAT(notes, HasSubstr("200 shards: 1 failed, 1 running, 1 silent, 197 stopped"));
  EXPECT_THAT(notes, HasSubstr("shard 1 failed on n1: why"));
  EXPECT_THAT(notes, HasSubstr("  | last words"));
  EXPECT_THAT(notes, HasSubstr("shard 2 on n1 has been silent for"));
}

}  // namespace
}  // namespace kvc::test
