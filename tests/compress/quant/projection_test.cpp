// Least squares of signs, held against the arcsine law solved without any approximation.
#include "kvc/quant/projection.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace kvc {
namespace {

at::Tensor directions(int64_t n, int64_t d) {  // [n, d] fp64, uniform
  auto generator = at::detail::createCPUGenerator(uint64_t{17});
  const auto x = at::randn({n, d}, generator, at::kDouble);
  return x / x.norm(2, 1, true);
}

double error(const at::Tensor& w, const at::Tensor& s, const at::Tensor& u) {
  const auto signs = at::matmul(u, s.to(at::kDouble)).gt(0).to(at::kDouble).mul_(2).sub_(1);
  return (at::matmul(signs, w.t()) - u).square().sum(1).mean().item<double>();
}

// The best map that is linear in the signs: E[u z^T] E[z z^T]^-1, where E[z z^T] = 2/pi asin of the columns' cosines
// and E[u z_j] = E|u_1| s_j / |s_j|.
at::Tensor by_arcsine_law(const at::Tensor& s) {
  const auto d = static_cast<double>(s.size(0));
  const auto columns = s.to(at::kDouble) / s.to(at::kDouble).norm(2, 0, true);
  const auto cosines = at::matmul(columns.t(), columns).clamp(-1, 1);
  const auto covariance = cosines.asin().mul(2 / std::numbers::pi);
  const double mean = std::exp(std::lgamma(d / 2) - std::lgamma((d + 1) / 2)) / std::sqrt(std::numbers::pi);  // E|u_1|
  return at::matmul(columns * mean, at::linalg_inv(covariance));
}

TEST(LeastSquaresOfSigns, ComeToWithinAThousandthOfTheArcsineLaw) {
  for (const auto kind : {ProjectionKind::orthogonal, ProjectionKind::gaussian}) {
    for (const int64_t m : {20, 32, 96, 130}) {  // fewer than d, d, more, no multiple
      const Projection projection(kind, 5, 32, m);
      const auto s = projection.matrix();
      const auto u = directions(20000, 32);
      const double ours = error(least_squares_of_signs(s), s, u), best = error(by_arcsine_law(s), s, u);
      EXPECT_LT(ours, 1.001 * best + 1e-4) << m;
      EXPECT_LT(ours, error(1.02 * least_squares_of_signs(s), s, u)) << m;
      EXPECT_LT(ours, error(0.98 * least_squares_of_signs(s), s, u)) << m;
    }
  }
}

// One block: the signs of d orthogonal columns say a^2 of the length squared, a = E|x_1| of |x|^2 = d.
TEST(LeastSquaresOfSigns, OneOrthogonalBlockIsAMultipleOfTheProjection) {
  const Projection projection(ProjectionKind::orthogonal, 5, 16, 16);
  const auto s = projection.matrix();
  const double a = 4 * std::exp(std::lgamma(8.0) - std::lgamma(8.5)) / std::sqrt(std::numbers::pi);
  EXPECT_LT((least_squares_of_signs(s) - s * (a / 16)).abs().max().item<double>(), 1e-6);
  EXPECT_NEAR(error(least_squares_of_signs(s), s, directions(20000, 16)), 1 - a * a, 0.005);
}

// One channel: the sign and the length are the number itself.
TEST(LeastSquaresOfSigns, OneChannelIsExact) {
  const auto s = at::tensor({0.5f, -2.f, 3.f}).view({1, 3});
  const auto u = at::tensor({1.0, -1.0}).view({2, 1});
  EXPECT_NEAR(error(least_squares_of_signs(s), s, u), 0, 1e-20);
}

}  // namespace
}  // namespace kvc
