#include "kvc/quant/kept_tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kvc/quant/token_blocks.h"

namespace kvc {
namespace {

at::Tensor longs(std::initializer_list<std::initializer_list<int64_t>> rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(at::tensor(at::IntArrayRef(row.begin(), row.size()), at::kLong));
  return at::stack(tensors);
}

TEST(HeaviestAndRecent, TakesTheTopOfTheOlderAndAllOfTheNewest) {
  const auto scores = at::tensor({5.f, 1.f, 9.f, 3.f, 0.f, 7.f}).view({1, 6});
  EXPECT_TRUE(at::equal(heaviest_and_recent(scores, 2, 2), longs({{0, 2, 4, 5}})));
  EXPECT_TRUE(at::equal(heaviest_and_recent(scores, 0, 3), longs({{3, 4, 5}})));
  EXPECT_TRUE(at::equal(heaviest_and_recent(scores, 2, 0), longs({{2, 5}})));
  EXPECT_TRUE(at::equal(heaviest_and_recent(scores, 40, 40), longs({{0, 1, 2, 3, 4, 5}})));
}

TEST(HeaviestAndRecent, KeepsTheOlderOfEqualScores) {
  EXPECT_TRUE(at::equal(heaviest_and_recent(at::zeros({2, 9}), 3, 1), longs({{0, 1, 2, 8}, {0, 1, 2, 8}})));
}

// One leaves in a step: the same as sorting finds.
TEST(HeaviestAndRecent, LeavesOutOneAsItLeavesOutMany) {
  at::manual_seed(3);
  const auto scores = at::randint(0, 4, {5, 40}).to(at::kFloat);
  for (const int64_t recent : {0, 1, 7, 38}) {
    const auto some = at::cat({scores, at::full({5, 1}, -1.f)}, 1).roll(1, 1);  // one more leaves, the first
    const auto many = heaviest_and_recent(some, 39 - recent, recent).sub(1);
    EXPECT_TRUE(at::equal(heaviest_and_recent(scores, 39 - recent, recent), many)) << recent;
  }
}

TEST(TokenBlocks, AStepThatEvictsWhatItTakesStaysInItsMemory) {
  const auto x = at::arange(24, at::kFloat).view({2, 6, 2});
  TokenBlocks held(at::kFloat, kWholeBlock);
  held.push_rows(x, longs({{0, 1, 5}, {2, 3, 4}}));
  const void* memory = held.blocks()[0].const_data_ptr();
  held.keep_and_push(longs({{0, 2}, {1, 2}}), x.narrow(1, 0, 1));
  EXPECT_EQ(held.blocks()[0].const_data_ptr(), memory);
  EXPECT_TRUE(at::equal(held.all()[0], at::tensor({0.f, 1.f, 10.f, 11.f, 0.f, 1.f}).view({3, 2})));
  EXPECT_TRUE(at::equal(held.all()[1], at::tensor({18.f, 19.f, 20.f, 21.f, 12.f, 13.f}).view({3, 2})));
}

TEST(TokenBlocks, EachHeadKeepsItsOwnRows) {
  const auto x = at::arange(24, at::kFloat).view({2, 6, 2});
  TokenBlocks held(at::kHalf, kWholeBlock);
  held.push_rows(x, longs({{0, 1, 5}, {2, 3, 4}}));
  held.keep_and_push(longs({{0, 2}, {1, 2}}), x.narrow(1, 0, 1));
  EXPECT_TRUE(at::equal(held.all()[0], at::tensor({0.f, 1.f, 10.f, 11.f, 0.f, 1.f}).view({3, 2})));
  EXPECT_TRUE(at::equal(held.all()[1], at::tensor({18.f, 19.f, 20.f, 21.f, 12.f, 13.f}).view({3, 2})));
  EXPECT_EQ(held.n_tokens(), 3);
  EXPECT_EQ(held.blocks().size(), 1u);
  Footprint bytes;
  held.add_to(bytes, CacheTensor::k);
  EXPECT_EQ(bytes.total_bytes(), 3 * 2 * 2 * 2);
}

TEST(TokenBlocks, KeepRowsOfAllBlocks) {
  const auto x = at::arange(40, at::kFloat).view({1, 20, 2});
  TokenBlocks held(at::kFloat, 8);  // blocks of 8, 8 and 4
  held.push_back(x);
  held.keep_and_push(longs({{3, 8, 19}}), x.narrow(1, 5, 2));
  EXPECT_TRUE(at::equal(held.all(), x.index_select(1, at::tensor({3, 8, 19, 5, 6}, at::kLong))));
}

TEST(TokenBlocks, RefuseRowsThatFp16CannotHold) {
  TokenBlocks held(at::kHalf);
  EXPECT_THROW(held.push_rows(at::full({1, 1, 2}, 1e6f), longs({{0}})), Error);
}

}  // namespace
}  // namespace kvc
