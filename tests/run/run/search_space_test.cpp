#include "search/search_space.h"

#include <gtest/gtest.h>

#include "kvc/check.h"

namespace kvc {
namespace {

// A layer holds 10 bytes a bit, the first one 3 more.
SearchSpace space_of(size_t n_layers, int64_t budget, uint64_t seed = 1) {
  std::vector<std::vector<int64_t>> bytes(n_layers, {20, 40, 80});
  bytes[0] = {23, 43, 83};
  return {{2, 4, 8}, bytes, budget, seed};
}

TEST(SearchSpace, AddsUpTheLayers) {
  EXPECT_EQ(space_of(3, 999).bytes({8, 2, 4}), 83 + 20 + 40);
  EXPECT_EQ(space_of(3, 999).least_bytes(), 63);
}

// m levels, L layers: m plans of one level, and for each of the m(m-1)/2 pairs the L-1 places of the step.
TEST(SearchSpace, TheMonotoneFamilyHasItsClosedFormCount) {
  for (const size_t n_layers : {1, 2, 3, 4, 12, 32}) {
    EXPECT_EQ(space_of(n_layers, 1 << 20).two_steps().size(), 3 + 3 * (n_layers - 1)) << n_layers;
  }
}

TEST(SearchSpace, TwoStepsFallFromTheLowestLayerOnAndFit) {
  const auto family = space_of(3, 999).two_steps();
  EXPECT_EQ(family.front(), (LayerPlan{8, 8, 8}));
  EXPECT_EQ(family.back(), (LayerPlan{2, 2, 2}));
  for (const auto& plan : family) EXPECT_TRUE(std::is_sorted(plan.rbegin(), plan.rend())) << to_text(plan);
  const auto within = space_of(3, 103).two_steps();
  EXPECT_EQ(within, (std::vector<LayerPlan>{{4, 4, 2}, {4, 2, 2}, {2, 2, 2}}));  // 103, 83, 63
}

// Of L layers a at 8, b at 4 and the rest at 2 bits hold 20 L + 20 b + 60 a + 3 bytes: the plans that fit are the sum
// of multinomial coefficients L! / (a! b! (L-a-b)!).
TEST(SearchSpace, RandomPlansFitAndNeverRepeatUntilAllAreTried) {
  for (const int64_t budget : {83, 143, 203, 323}) {
    auto space = space_of(4, budget);
    std::set<LayerPlan> seen;
    while (const auto plan = space.random()) {
      EXPECT_LE(space.bytes(*plan), budget);
      EXPECT_TRUE(seen.insert(*plan).second);
    }
    const int64_t factorial[] = {1, 1, 2, 6, 24};
    int64_t n_fit = 0;
    for (int64_t a = 0; a <= 4; ++a) {
      for (int64_t b = 0; a + b <= 4; ++b) {
        const bool fits = 80 + 20 * b + 60 * a + 3 <= budget;
        n_fit += fits ? 24 / (factorial[a] * factorial[b] * factorial[4 - a - b]) : 0;
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n_fit) << budget;
  }
}

TEST(SearchSpace, MutationsChangeAtMostTwoLayersAndFit) {
  auto space = space_of(12, 12 * 40 + 3);
  const LayerPlan start(12, 4);
  ASSERT_TRUE(space.propose(start));
  EXPECT_FALSE(space.propose(start));
  for (int i = 0; i < 50; ++i) {
    const auto plan = space.mutation_of(start);
    ASSERT_TRUE(plan);
    size_t n_changed = 0;
    for (size_t layer = 0; layer < 12; ++layer) n_changed += (*plan)[layer] != start[layer];
    EXPECT_TRUE(n_changed == 1 || n_changed == 2) << n_changed;
    EXPECT_LE(space.bytes(*plan), 12 * 40 + 3);
  }
}

TEST(SearchSpace, ASeedGivesOneOrder) {
  auto a = space_of(20, 700, 7), b = space_of(20, 700, 7), c = space_of(20, 700, 8);
  bool differs = false;
  for (int i = 0; i < 10; ++i) {
    const auto x = a.random();
    EXPECT_EQ(x, b.random());
    differs |= x != c.random();
  }
  EXPECT_TRUE(differs);
}

TEST(SearchSpace, RefusesWhatIsNoLevel) { EXPECT_THROW(space_of(2, 999).bytes({2, 3}), Error); }

}  // namespace
}  // namespace kvc
