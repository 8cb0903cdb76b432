// Rows times matrices against fp64, and Hadamard matrices by what they are.
#include "kvc/quant/rotation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/normal.h"

namespace kvc {
namespace {

TEST(RowsTimes, IsTheProductAndDoesNotDependOnOtherRows) {
  for (const auto& [d, n_out] : {std::pair{1, 1}, {64, 64}, {80, 80}, {128, 128}, {64, 100}, {100, 7}}) {
    const auto x = test::normal({3, 5, d}, 1), m = test::normal({d, n_out}, 2);
    const auto y = rows_times(x, m);
    ASSERT_EQ(y.sizes(), at::IntArrayRef({3, 5, n_out}));
    const auto expected = at::matmul(x.to(at::kDouble), m.to(at::kDouble));
    EXPECT_LT((y.to(at::kDouble) - expected).abs().max().item<double>(), 1e-4) << d << " " << n_out;
    EXPECT_TRUE(at::equal(rows_times(x[1][3], m), y[1][3]));
  }
}

TEST(HadamardMatrix, IsItsOwnInverseAndThatOfTwoAndFour) {
  const double half = std::sqrt(0.5);
  EXPECT_TRUE(at::allclose(hadamard_matrix(2), at::tensor({half, half, half, -half}, at::kDouble).view({2, 2})));
  const auto four = at::tensor({1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1}, at::kDouble).view({4, 4}) / 2;
  EXPECT_TRUE(at::allclose(hadamard_matrix(4), four));
  const auto h = hadamard_matrix(64);
  EXPECT_TRUE(at::equal(h, h.t()));
  EXPECT_LT((at::matmul(h, h) - at::eye(64, at::kDouble)).abs().max().item<double>(), 1e-14);
}

TEST(HadamardMatrix, NeedsAPowerOfTwo) {
  for (const int64_t d : {2, 64, 256}) EXPECT_NO_THROW(check_hadamard("m", d));
  for (const int64_t d : {0, 1, 80, 96}) EXPECT_THROW(check_hadamard("m", d), Error) << d;
}

TEST(SharedMatrices, AreMadeOnceForEachName) {
  const SharedMatrices matrices;
  int n_made = 0;
  const auto make = [&] {
    ++n_made;
    return hadamard_matrix(4);
  };
  const auto one = matrices.get("one", at::kCPU, make), again = matrices.get("one", at::kCPU, make);
  EXPECT_TRUE(one.is_same(again));
  EXPECT_EQ(one.scalar_type(), at::kFloat);
  matrices.get("other", at::kCPU, make);
  EXPECT_EQ(n_made, 2);
}

}  // namespace
}  // namespace kvc
