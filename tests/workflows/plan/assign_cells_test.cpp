#include "plan/assign_cells.h"

#include "plan_fixture.h"

namespace kvc {
namespace {

using testing::ElementsAre;

std::vector<std::vector<size_t>> deal(const Plan& plan, size_t n) { return assign_cells(plan, plan.shards[0], n); }

TEST(AssignCells, LongestFirstLevelsTheShards) {
  const auto plan = plan_of(
      {planned("a", "k", 7), planned("b", "k", 6), planned("c", "k", 5), planned("d", "k", 4), planned("e", "k", 4)});
  EXPECT_THAT(deal(plan, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));  // 13 s each
}

TEST(AssignCells, BaselinesComeFirstHoweverShort) {
  const auto plan = plan_of({planned("a", "k", 90), planned("b", "full", 1), planned("b", "k", 80)});
  EXPECT_THAT(deal(plan, 1), ElementsAre(ElementsAre(1, 2, 0)));
}

TEST(AssignCells, CellsOfATaskStayWithItsPrompts) {
  const auto plan =
      plan_of({planned("a", "k", 1, 50), planned("a", "q", 1, 50), planned("b", "k", 1, 50), planned("b", "q", 1, 50)});
  EXPECT_THAT(deal(plan, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_EQ(shard_seconds(plan, {0, 1}), 52);
  EXPECT_EQ(shard_seconds(plan, {0, 2}), 102);
}

TEST(AssignCells, AModelIsLoadedByAsFewShardsAsPossible) {
  auto plan = plan_of({planned("a", "k", 10), planned("b", "k", 10), planned("a", "q", 10), planned("b", "q", 10)});
  plan.experiments.push_back({"/shared/y.yaml", {}, "y", "models/other", 0});
  for (auto& experiment : plan.experiments) experiment.load_seconds = 60;
  plan.cells[2].experiment = plan.cells[3].experiment = 1;
  EXPECT_THAT(deal(plan, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(AssignCells, EachCellIsInOneShardAndNoneIsEmpty) {
  std::vector<PlannedCell> cells;
  for (int i = 0; i < 1000; ++i) {
    cells.push_back(planned("t" + std::to_string(i % 17), i % 5 == 0 ? "full" : "k" + std::to_string(i), i * 37 % 101));
  }
  for (const size_t n : {1, 7, 64, 2000}) {
    std::vector<int> uses(cells.size());
    const auto shards = deal(plan_of(cells), n);
    EXPECT_LE(shards.size(), n);
    for (const auto& shard : shards) {
      EXPECT_FALSE(shard.empty());
      for (const size_t c : shard) ++uses[c];
    }
    EXPECT_EQ(std::count(uses.begin(), uses.end(), 1), 1000) << n;
  }
}

TEST(AssignCells, WithoutTimesSamplesCount) {
  auto plan = plan_of({planned("a", "k", 0), planned("b", "k", 0), planned("c", "k", 0)});
  for (auto& cell : plan.cells) cell.seconds.reset();
  plan.cells[1].n_samples = 30;
  EXPECT_THAT(deal(plan, 2), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
  EXPECT_EQ(shard_seconds(plan, {0}), std::nullopt);
}

}  // namespace
}  // namespace kvc
