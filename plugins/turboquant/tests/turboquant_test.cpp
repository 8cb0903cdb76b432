// TurboQuant: optimal errors of its levels, the error of whole vectors, no bias with the sketch, decoding.
#include <functional>
#include <numbers>

#include "../lloyd_max.h"
#include "kvc/quant/projection.h"
#include "method.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

struct Made : OpenCache {
  Made(const json& options, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim)
      : OpenCache("turboquant", options, {.n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim}) {}
};

// Max 1960, table I: levels above 0 and the least mean squared errors of N(0, 1), as printed; the
// last digit of some is off by one (0.7980 is sqrt(2/pi) = 0.79788).
const std::vector<std::vector<double>> kGaussianLevels = {
    {0.7980},
    {0.4528, 1.510},
    {0.2451, 0.7560, 1.344, 2.152},
    {0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733},
};
const std::vector<double> kGaussianErrors = {0.3634, 0.1175, 0.03454, 0.009497};

TEST(LloydMax, LevelsAndErrorsOfTheNormalDistributionAreMaxs) {
  for (int64_t bits = 1; bits <= 4; ++bits) {
    const auto quantizer = turboquant::lloyd_max(bits, 0);
    EXPECT_NEAR(quantizer.error, kGaussianErrors[bits - 1], 2e-4 * kGaussianErrors[bits - 1] + 5e-6) << bits;
    const auto& printed = kGaussianLevels[bits - 1];
    ASSERT_EQ(quantizer.levels.size(), 2 * printed.size());
    for (size_t i = 0; i < printed.size(); ++i) {
      const double level = quantizer.levels[printed.size() + i];
      EXPECT_NEAR(level, printed[i], printed[i] < 1 ? 1.5e-4 : 5e-4) << bits << " bits";
      EXPECT_EQ(level, -quantizer.levels[printed.size() - 1 - i]);
    }
  }
  EXPECT_NEAR(turboquant::lloyd_max(1, 0).levels[1], std::sqrt(2 / std::numbers::pi), 1e-12);
}

// By Simpson's rule over x itself.
double integral(const std::function<double(double)>& f, double from, double to) {
  constexpr int kSteps = 4000;
  const double step = (to - from) / kSteps;
  double sum = f(from) + f(to);
  for (int i = 1; i < kSteps; ++i) sum += (i % 2 == 0 ? 2 : 4) * f(from + i * step);
  return sum * step / 3;
}

// Each level is the mean of its cell, whose borders are the middles of levels; and the error is theirs.
TEST(LloydMax, LevelsAreOptimalForEveryHeadDim) {
  for (const int64_t d : {0, 3, 5, 16, 40, 64, 80, 96, 128, 256, 1024}) {
    const auto density = [&](double x) {
      if (d == 0) return std::exp(-x * x / 2);
      const double inside = std::max(0.0, 1 - x * x / static_cast<double>(d));
      return std::pow(inside, static_cast<double>(d - 3) / 2);
    };
    const double largest = d == 0 ? 12 : std::min(12.0, std::sqrt(static_cast<double>(d)));
    const double whole = integral(density, -largest, 0) * 2;
    for (int64_t bits = 1; bits <= 4; ++bits) {
      SCOPED_TRACE(concat("head_dim ", d, ", ", bits, " bits"));
      const auto [levels, error] = turboquant::lloyd_max(bits, d);
      double squares = 0;
      for (size_t i = 0; i < levels.size(); ++i) {
        const double from = i == 0 ? -largest : (levels[i - 1] + levels[i]) / 2;
        const double to = i + 1 == levels.size() ? largest : (levels[i] + levels[i + 1]) / 2;
        const double mass = integral(density, from, to);
        const double first = integral([&](double x) { return x * density(x); }, from, to);
        EXPECT_NEAR(levels[i], first / mass, 1e-8);
        squares += integral([&](double x) { return (x - levels[i]) * (x - levels[i]) * density(x); }, from, to);
      }
      EXPECT_NEAR(error, squares / whole, 1e-8);
    }
  }
}

// d = 3: a coordinate of the sphere is uniform, whose optimal levels are evenly spaced and whose error is 4^-b.
TEST(LloydMax, LevelsInThreeDimensionsAreEvenlySpaced) {
  for (int64_t bits = 1; bits <= 4; ++bits) {
    const auto quantizer = turboquant::lloyd_max(bits, 3);
    EXPECT_NEAR(quantizer.error, std::pow(4.0, -bits), 1e-12);
    EXPECT_NEAR(quantizer.levels.back(), std::sqrt(3.0) * (1 - std::pow(2.0, -bits)), 1e-12);
  }
}

TEST(Turboquant, VectorsLoseTheErrorOfTheirCoordinates) {
  constexpr int64_t D = 128;
  // Far from normal: one coordinate holds nearly all, the rotation spreads it.
  auto x = normal({1, 400, D}, 1);
  x.select(2, 5).mul_(50);
  for (int64_t bits = 1; bits <= 4; ++bits) {
    Made made({{"bits", bits}, {"precision", "exact"}}, 1, 1, D);
    made.append(x, x);
    const auto kv = made.cache->dequantize();
    const auto relative = (kv.v - x).square().sum(2) / x.square().sum(2);
    // One rotation, nearly one direction: the error of 128 coordinates scatters; a spread of rows does not.
    Made spread({{"bits", bits}, {"precision", "exact"}}, 1, 1, D);
    const auto rows = normal({1, 400, D}, 2);
    spread.append(rows, rows);
    const auto mean = ((spread.cache->dequantize().k - rows).square().sum(2) / rows.square().sum(2)).mean();
    EXPECT_NEAR(mean.item<double>(), turboquant::lloyd_max(bits, D).error, 0.02 * kGaussianErrors[bits - 1]) << bits;
    EXPECT_NEAR(mean.item<double>(), kGaussianErrors[bits - 1], 0.03 * kGaussianErrors[bits - 1]) << bits;
    EXPECT_LT(relative.mean().item<double>(), 1.6 * kGaussianErrors[bits - 1]) << bits;
  }
}

// Over 2,000 seeds: the sketch makes scores unbiased, and its variance is that of QJL on the error; without it they
// shrink.
TEST(Turboquant, SketchMakesScoresUnbiased) {
  constexpr int64_t D = 16, N = 8;
  const auto q = normal({D}, 3), k = normal({1, N, D}, 4) + q;
  const auto exact = at::matmul(k[0], q).to(at::kDouble);
  const auto deviation = [&](const char* keys) {  // of the mean, in standard errors, [N]
    std::vector<at::Tensor> rows;
    for (int64_t seed = 0; seed < 2000; ++seed) {
      Made made({{"bits", 2}, {"keys", keys}, {"seed", 2 * seed}, {"precision", "exact"}}, 1, 1, D);
      made.append(k, k);
      rows.push_back(at::matmul(made.cache->attended().k[0], q).to(at::kDouble));
    }
    const auto drawn = at::stack(rows);
    return (drawn.mean(0) - exact) / (drawn.std(0) / std::sqrt(2000.0));
  };
  EXPECT_LT(deviation("inner_product").abs().max().item<double>(), 4);
  EXPECT_LT(deviation("mse").max().item<double>(), -8);
}

// The estimator's vectors have pi/2 - 1/D times the error of x^, here of 1 bit. The least squares keep the mean of
// c / (l + c) over the spectrum l of S S^T / D, c = pi/2 - 1; of many channels c (sqrt(1 + 4/c) - 1) / 2 (Marchenko and
// Pastur 1967).
TEST(Turboquant, DequantizeTakesTheSketchForNearerKeys) {
  constexpr int64_t D = 64;
  const auto x = normal({1, 2000, D}, 6);
  const auto error = [&](const at::Tensor& k) { return (k - x).square().sum().item<double>(); };
  Made sketched({{"bits", 2}, {"keys", "inner_product"}, {"precision", "exact"}}, 1, 1, D);
  Made codes({{"bits", 1}, {"precision", "exact"}}, 1, 1, D);
  sketched.append(x, x), codes.append(x, x);
  const double of_codes = error(codes.cache->dequantize().k);
  EXPECT_NEAR(error(sketched.cache->attended().k) / of_codes, std::numbers::pi / 2 - 1.0 / D, 0.03);
  const double c = std::numbers::pi / 2 - 1, share = c * (std::sqrt(1 + 4 / c) - 1) / 2;
  EXPECT_NEAR(error(sketched.cache->dequantize().k) / of_codes, share, 0.02);
  EXPECT_TRUE(at::equal(codes.cache->dequantize().k, codes.cache->attended().k));
}

TEST(Turboquant, PaperBytesAreTheBitsOfTheCodes) {
  const ModelShape model{.n_kv_heads = 32, .head_dim = 128};
  EXPECT_EQ(Method("turboquant", {{"bits", 3}}).compressor().paper_bytes(model, 900, 100) * 8 / (2.0 * 4096 * 1000), 3);
}

// The formula in double, for one vector: rotation, nearest level, back; and the sketch of what is left.
at::Tensor slow(const at::Tensor& x, int64_t bits, bool sketched, int64_t seed) {
  const int64_t d = x.size(0);
  const auto rotation = Projection(ProjectionKind::orthogonal, seed, d, d).matrix().to(at::kDouble);
  const auto levels = turboquant::lloyd_max(sketched ? bits - 1 : bits, d).levels;
  const double norm = x.norm().item<double>();
  auto z = at::matmul(x, rotation) / norm;
  for (int64_t j = 0; j < d; ++j) {
    double best = levels[0];
    for (const double level : levels) {
      if (std::abs(level - z[j].item<double>()) < std::abs(best - z[j].item<double>())) best = level;
    }
    z[j] = best;
  }
  const auto y = norm / static_cast<double>(d) * at::matmul(rotation, z);
  if (!sketched) return y;
  const auto s = Projection(ProjectionKind::gaussian, seed + 1, d, d).matrix().to(at::kDouble);
  const auto signs = at::where(at::matmul(x - y, s) > 0, 1.0, -1.0).to(at::kDouble);
  return y + std::sqrt(std::numbers::pi / 2) / static_cast<double>(d) * (x - y).norm() * at::matmul(s, signs);
}

TEST(Turboquant, DecodingFor300StepsIsTheSlowReference) {
  constexpr int64_t D = 16, N = 300;
  const auto k = normal({1, N, D}, 6), v = normal({1, N, D}, 7), q = normal({2, N, D}, 8);
  Made made({{"bits", 3}, {"keys", "inner_product"}, {"seed", 5}, {"precision", "exact"}}, 2, 1, D);
  std::vector<at::Tensor> k_slow, v_slow;
  for (int64_t t = 0; t < N; ++t) {
    made.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
    k_slow.push_back(slow(k[0][t].to(at::kDouble), 3, true, 5));
    v_slow.push_back(slow(v[0][t].to(at::kDouble), 3, false, 5));
    if (t % 60 != 0 && t + 1 != N) continue;
    const auto weights = (0.25 * at::matmul(at::stack(k_slow), q[1][t].to(at::kDouble))).softmax(0);
    const auto expected = at::matmul(weights, at::stack(v_slow));
    const auto got = made.cache->attend(q.narrow(1, t, 1), 0.25)[1][0].to(at::kDouble);
    EXPECT_LT((got - expected).abs().max().item<double>(), 1e-4) << t;
  }
}

}  // namespace
}  // namespace kvc::conformance
