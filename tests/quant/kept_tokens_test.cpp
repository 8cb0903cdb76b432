#include "kvc/quant/kept_tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(KeptTokens, EachHeadKeepsItsOwnRows) {
  const auto x = at::arange(24, at::kFloat).view({2, 6, 2});
  KeptTokens held(Precision::real);
  held.start(x, x + 100, longs({{0, 1, 5}, {2, 3, 4}}));
  held.keep_and_push(longs({{0, 2}, {1, 2}}), x.narrow(1, 0, 1), x.narrow(1, 0, 1), 6);
  EXPECT_TRUE(at::equal(held.positions(), longs({{0, 5, 6}, {3, 4, 6}})));
  const auto k = held.dequantize().k;
  EXPECT_TRUE(at::equal(k[0], at::tensor({0.f, 1.f, 10.f, 11.f, 0.f, 1.f}).view({3, 2})));
  EXPECT_TRUE(at::equal(k[1], at::tensor({18.f, 19.f, 20.f, 21.f, 12.f, 13.f}).view({3, 2})));
  EXPECT_EQ(held.n_hidden(7, 3), (std::vector<int64_t>{1, 1}));  // positions 4, 5, 6 are seen
  EXPECT_EQ(held.n_hidden(7, 4), (std::vector<int64_t>{1, 0}));
  Footprint bytes;
  held.add_to(bytes);
  EXPECT_EQ(bytes.total_bytes(), 3 * 2 * (4 * 2 + 4));
}

TEST(KeptTokens, RefuseWhatFp16CannotHold) {
  KeptTokens held(Precision::real);
  EXPECT_THROW(held.start(at::full({1, 1, 2}, 1e6f), at::ones({1, 1, 2}), longs({{0}})), Error);
}

}  // namespace
}  // namespace kvc
