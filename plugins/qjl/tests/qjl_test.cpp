// QJL: the estimator's mean and variance over seeds, and 300 steps of decoding. The public code's scores are in the
// census.
#include <numbers>

#include "kvc/quant/projection.h"
#include "method.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

// A cache in layer 0.
struct Made : OpenCache {
  Made(const json& options, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim)
      : OpenCache("qjl", options, {.n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim}) {}
};

json small(int64_t sketch, const char* projection, int64_t seed = 42, int64_t channels = 0) {
  return {{"sketch", sketch},         {"outlier_sketch", 32}, {"outlier_channels", channels},
          {"projection", projection}, {"group_size", 16},     {"buffer", 16},
          {"precision", "exact"},     {"seed", seed},         {"initial_layers", 0}};
}

// Estimates of one query with 16 keys for each of 2,000 seeds: [2000, 16] double.
at::Tensor estimates(const char* projection, int64_t sketch, const at::Tensor& q, const at::Tensor& k) {
  std::vector<at::Tensor> rows;
  for (int64_t seed = 0; seed < 2000; ++seed) {
    Made made(small(sketch, projection, seed), 1, 1, k.size(2));
    made.append(k, k);
    rows.push_back(at::matmul(made.cache->attended().k[0], q).to(at::kDouble));
  }
  return at::stack(rows);
}

TEST(Qjl, EstimatorHasItsMeanAndVarianceOverSeeds) {
  constexpr int64_t D = 32, M = 64;
  const auto q = normal({D}, 1), k = normal({1, 16, D}, 2);
  const auto exact = at::matmul(k[0], q).to(at::kDouble);  // [16]
  const auto sizes = k[0].norm(2, 1).to(at::kDouble).square() * std::pow(q.norm().item<double>(), 2);
  const auto variance = (std::numbers::pi / 2 * sizes - exact.square()) / static_cast<double>(M);
  const double kappa = std::sqrt(D / 2.0) * std::exp(std::lgamma(D / 2.0) - std::lgamma((D + 1) / 2.0));
  for (const bool orthogonal : {false, true}) {
    const auto drawn = estimates(orthogonal ? "orthogonal" : "gaussian", M, q, k);
    const auto standard_error = drawn.std(0) / std::sqrt(2000.0);
    const auto mean = exact * (orthogonal ? kappa : 1.0);
    EXPECT_LT(((drawn.mean(0) - mean) / standard_error).abs().max().item<double>(), 4) << orthogonal;
    // The variance of a variance over n draws is about 2/n of its square.
    const double ratio = (drawn.var(0) / variance).mean().item<double>();
    EXPECT_NEAR(ratio, orthogonal ? 1 - 2 / std::numbers::pi : 1.0, 4 * std::sqrt(2 / 2000.0)) << orthogonal;
  }
}

TEST(Qjl, OneDimensionOfSketchIsExactUpToItsConstant) {
  // k along q: the estimate is positive; k = 0: exactly 0; -k: the negative; 3k: three times.
  constexpr int64_t D = 32;
  const auto q = normal({D}, 3);
  auto k = normal({1, 16, D}, 4);
  k[0][0] = q, k[0][1] = 0, k[0][3] = -k[0][2], k[0][4] = 3 * k[0][2];
  Made made(small(64, "orthogonal"), 1, 1, D);
  made.append(k, k);
  const auto score = at::matmul(made.cache->attended().k[0], q);
  EXPECT_GT(score[0].item<float>(), 0);
  EXPECT_EQ(score[1].item<float>(), 0);
  EXPECT_FLOAT_EQ(score[3].item<float>(), -score[2].item<float>());
  EXPECT_FLOAT_EQ(score[4].item<float>(), 3 * score[2].item<float>());
}

// Bits per number of the public code's settings at head_dim 128: 17 general and 15 initial layers, and two others.
TEST(Qjl, PaperBytesAreTheBitsOfThePublicSettings) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  const auto bits = [&](const json& options) {
    return Method("qjl", options).compressor().paper_bytes(model, 900, 100) * 8 / (2.0 * 4096 * 1000);
  };
  EXPECT_NEAR(bits({}), 3.87, 0.005);
  EXPECT_NEAR(bits({{"initial_layers", 0}, {"outlier_sketch", 128}}), 3.13, 0.005);
  EXPECT_NEAR(bits({{"initial_layers", 0}, {"sketch", 384}, {"outlier_channels", 0}}), 3.06, 0.005);
}

TEST(Qjl, GroupsChooseTheSameChannelsOneByOne) {
  const auto k = normal({2, 100, 32}, 7), v = normal({2, 100, 32}, 8);
  Made at_once(small(64, "orthogonal", 42, 3), 2, 2, 32), one_by_one(small(64, "orthogonal", 42, 3), 2, 2, 32);
  at_once.append(k, v);
  for (int64_t t = 0; t < 100; ++t) one_by_one.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
  EXPECT_TRUE(at::equal(at_once.cache->dequantize().k, one_by_one.cache->dequantize().k));
  EXPECT_TRUE(at::equal(at_once.cache->attended().k, one_by_one.cache->attended().k));
  EXPECT_TRUE(at::equal(at_once.cache->dequantize().v, one_by_one.cache->dequantize().v));
}

double error_share(const at::Tensor& x, const at::Tensor& exact) {
  return ((x - exact).square().sum() / exact.square().sum()).item<double>();
}

// Without outliers, of orthogonal blocks: c S sign(.) |k| with the constant and the error in closed form, which no
// other constant undercuts; the estimator's is 1/m sqrt(pi/2).
TEST(Qjl, DequantizeIsTheLeastSquaresKey) {
  constexpr int64_t D = 32, M = 64;
  const auto k = normal({1, 16000, D}, 13);
  Made made(small(M, "orthogonal"), 1, 1, D);
  made.append(k, k);
  const auto held = made.cache->dequantize().k, seen = made.cache->attended().k;
  const double kappa = std::sqrt(D / 2.0) * std::exp(std::lgamma(D / 2.0) - std::lgamma((D + 1) / 2.0));
  const double a = std::sqrt(2 / std::numbers::pi) * kappa, sum = a * a * M + (1 - a * a) * D;
  const double ratio = a / sum / (std::sqrt(std::numbers::pi / 2) / M);
  EXPECT_LT((held - ratio * seen).abs().max().item<double>(), 1e-5);
  const double error = error_share(held, k);
  EXPECT_NEAR(error, (1 - a * a) * D / sum, 0.01 * error);
  for (const double factor : {0.9, 0.97, 1.03, 1.1, 1 / ratio})
    EXPECT_LT(error, error_share(factor * held, k)) << factor;
}

// With outliers and N(0, 1) entries nothing is closed: still nearer than the estimator's vectors and than these at any
// other length, in the outlier channels and in the others, and shorter than the key, as least squares are.
TEST(Qjl, DequantizeIsNearerThanTheEstimatorsVectorsWhateverTheOptions) {
  constexpr int64_t D = 64;
  auto k = normal({2, 640, D}, 14);
  k.select(2, 5).mul_(8), k.select(2, 40).mul_(6);
  for (const char* projection : {"orthogonal", "gaussian"}) {
    for (const char* outliers : {"group", "prompt"}) {
      for (const int64_t sketch : {32, 96, 256}) {  // fewer than D, no multiple of D, more
        auto options = small(sketch, projection, 42, 2);
        options["outliers"] = outliers;
        Made made(options, 2, 2, D);
        made.append(k, k);
        const auto held = made.cache->dequantize().k, seen = made.cache->attended().k;
        const auto large = at::tensor({5, 40}, at::kLong);
        const auto small_k = k.index_fill(2, large, 0), small_held = held.index_fill(2, large, 0),
                   small_seen = seen.index_fill(2, large, 0);
        const double error = error_share(small_held, small_k),
                     scale = (small_seen * small_k).sum().item<double>() / small_seen.square().sum().item<double>();
        EXPECT_LT(error, 1.002 * error_share(scale * small_seen, small_k)) << projection << outliers << sketch;
        EXPECT_LT(error, error_share(small_seen, small_k)) << projection << outliers << sketch;
        EXPECT_LT(error_share(held.index_select(2, large), k.index_select(2, large)),
                  error_share(seen.index_select(2, large), k.index_select(2, large)));
        EXPECT_LT(held.norm().item<double>(), k.norm().item<double>());
      }
    }
  }
}

// The formula, term by term in double: one query of one head against keys whose outlier channels a group of 16 chooses.
double slow_score(const at::Tensor& q, const at::Tensor& k, const at::Tensor& s, int64_t t, int64_t n_channels,
                  int64_t m_out) {
  const int64_t d = s.size(0), m = s.size(1), group = t / 16 * 16;
  const auto norms = k.narrow(0, group, 16).square().sum(0);
  const auto order = norms.argsort(true, 0, true);
  auto out = at::zeros({d}, at::kDouble);
  for (int64_t i = 0; i < n_channels; ++i) out[order[i].item<int64_t>()] = 1;
  const auto part = [&](const at::Tensor& mask, int64_t n_signs) {
    double sum = 0;
    for (int64_t j = 0; j < n_signs; ++j) {
      const auto column = s.select(1, j);
      const double sign = (column * mask * k[t]).sum().item<double>() > 0 ? 1 : -1;
      sum += sign * (column * mask * q).sum().item<double>();
    }
    return std::sqrt(std::numbers::pi / 2) / static_cast<double>(n_signs) * (mask * k[t]).norm().item<double>() * sum;
  };
  return part(1 - out, m) + part(out, m_out);
}

TEST(Qjl, DecodingFor300StepsIsTheSlowReference) {
  constexpr int64_t D = 16, N = 301, M = 64;
  const auto k = normal({1, N, D}, 9) * (1 + 5 * normal({1, 1, D}, 10).abs()), v = normal({1, N, D}, 11);
  const auto q = normal({2, N, D}, 12);
  Made made(small(M, "orthogonal", 42, 2), 2, 1, D);
  const auto s = Projection(ProjectionKind::orthogonal, 42, D, M).matrix().to(at::kDouble);
  const auto k64 = k[0].to(at::kDouble), q64 = q.to(at::kDouble);
  for (int64_t t = 0; t < N; ++t) {
    made.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
    if (t % 50 != 0 && t != 63 && t != 64) continue;
    auto scores = at::empty({t + 1}, at::kDouble);
    const int64_t n_sketched = (t + 1) / 16 * 16;
    for (int64_t i = 0; i <= t; ++i) {
      scores[i] = i < n_sketched ? slow_score(q64[1][t], k64, s, i, 2, 32) : (q64[1][t] * k64[i]).sum().item<double>();
    }
    const auto expected = at::matmul((0.25 * scores).softmax(0), made.cache->dequantize().v[0].to(at::kDouble));
    const auto got = made.cache->attend(q.narrow(1, t, 1), 0.25);
    EXPECT_LT((got[1][0].to(at::kDouble) - expected).abs().max().item<double>(), 1e-4) << t;
  }
}

}  // namespace
}  // namespace kvc::conformance
