// The decoder's loops against LibTorch's operators, and rows that must not know each other.
#include "model/ops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "model/portable_ops.h"

namespace kvc {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

class OpsOf : public testing::TestWithParam<at::ScalarType> {
 protected:
  // One rounding of a number up to `size`; fp32 sums of some hundred products lose a few more bits.
  double tolerance(double size) const {
    return size * (GetParam() == at::kFloat ? 1e-5 : GetParam() == at::kHalf ? 0x1p-10 : 0x1p-7);
  }
  at::Tensor random(at::IntArrayRef shape) const { return at::randn(shape).to(GetParam()); }
};

TEST_P(OpsOf, LinearRowsAgreeWithTheProductInDouble) {
  at::manual_seed(1);
  for (const int64_t k : {1, 15, 16, 48, 100, 257}) {  // with and without a part of a block behind the last whole one
    const Linear w{random({37, k}), random({37}), {}};
    const auto x = random({5, k});
    const auto expected = at::addmm(w.bias.to(at::kDouble), x.to(at::kDouble), w.weight.to(at::kDouble).t());
    EXPECT_LT(distance(linear_rows(x, w), expected), tolerance(expected.abs().max().item<double>())) << k;
    EXPECT_LT(distance(portable::linear_rows(x, w), expected), tolerance(expected.abs().max().item<double>())) << k;
  }
}

TEST_P(OpsOf, ARowOfAProductDoesNotDependOnTheOthersOrOnThreads) {
  at::manual_seed(2);
  const Linear w{random({1003, 200}), {}, {}};
  const auto x = random({17, 200});
  const auto all = linear_rows(x, w);
  for (int64_t n = 1; n < 17; ++n)
    EXPECT_TRUE(at::equal(linear_rows(x.narrow(0, 17 - n, n), w), all.narrow(0, 17 - n, n)));
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(linear_rows(x, w), all));
  at::set_num_threads(1);
}

TEST_P(OpsOf, LoopsAgreeWithLibTorchsOperators) {
  at::manual_seed(3);
  constexpr int64_t kTokens = 3, kHeads = 5, kHeadDim = 12;
  std::vector<int64_t> positions = {9, 2, 70};
  const auto rope = rope_table(positions, rope_frequencies({}, kHeadDim));
  const auto merged = random({kTokens, kHeads * kHeadDim});
  const auto compare = [&](const at::Tensor& a, const at::Tensor& b) { EXPECT_LT(distance(a, b), tolerance(4)); };
  {
    auto a = at::zeros({2, 4, kHeadDim}, merged.options()), b = a.clone();
    split_heads_(merged, 1, rope, 1, a), portable::split_heads_(merged, 1, rope, 1, b);
    compare(a, b);
    split_heads_(merged, 2, {}, 0, a), portable::split_heads_(merged, 2, {}, 0, b);
    compare(a, b);
  }
  {
    auto a = merged.clone(), b = merged.clone();
    rotate_heads_(a, 3, kHeadDim, rope), portable::rotate_heads_(b, 3, kHeadDim, rope);
    compare(a, b);
    EXPECT_TRUE(at::equal(a.narrow(1, 3 * kHeadDim, 2 * kHeadDim), merged.narrow(1, 3 * kHeadDim, 2 * kHeadDim)));
    const auto weight = at::rand({kHeadDim});
    normalize_heads_(a, 1, 2, weight, 1e-5), portable::normalize_heads_(b, 1, 2, weight, 1e-5);
    compare(a, b);
  }
  const auto gate_up = random({3, 70});
  compare(gated(gate_up, Activation::silu), portable::gated(gate_up, Activation::silu));
  const std::vector<int64_t> ids = {2, 0};
  EXPECT_TRUE(at::equal(embedding_rows(merged, ids, 4), portable::embedding_rows(merged, ids, 4)));
}
INSTANTIATE_TEST_SUITE_P(Types, OpsOf, testing::Values(at::kFloat, at::kHalf, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

TEST(SiluOfATensor, GivesAnEntryTheSameBitsWhereverItStands) {
  const auto x = at::linspace(-100, 100, 999);
  const auto gate_up = at::cat({x, at::ones({999})}).unsqueeze(0);
  const auto all = gated(gate_up, Activation::silu)[0];
  for (const int64_t i : {0, 1, 500, 990, 998}) {
    EXPECT_TRUE(at::equal(gated(at::stack({x[i], at::ones({})}).unsqueeze(0), Activation::silu)[0][0], all[i])) << i;
  }
  const auto wide = x.to(at::kDouble);
  EXPECT_LT(((all.to(at::kDouble) - wide * wide.sigmoid()) / wide.abs().clamp_min(1e-30)).abs().max().item<double>(),
            2e-6);
}

}  // namespace
}  // namespace kvc
