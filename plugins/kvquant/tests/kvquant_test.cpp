// KVQuant: exactness where it is promised, and decoding against a slow reference. The public code's records are in the
// census.
#include <random>

#include "method.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

struct Made : OpenCache {
  Made(const json& options, int64_t head_dim, std::span<const float> rope = {})
      : OpenCache("kvquant", options, {.head_dim = head_dim, .rope_frequencies = rope}) {}
};

TEST(Kvquant, PaperBytesAreThePrintedBits) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  const auto bits = [&](const json& options) {
    return Method("kvquant", options).compressor().paper_bytes(model, 900, 100) * 8 / (2.0 * 4096 * 1000);
  };
  EXPECT_NEAR(bits({}), 4.32, 1e-9);
  EXPECT_NEAR(bits({{"bits", 3}}), 3.33, 0.011);
}

// Each of the two outliers of a token costs a value and an index of 16 bits, and comes back as it was.
TEST(Kvquant, OutliersAndFirstTokensAreExact) {
  constexpr int64_t D = 64, N = 100;
  auto k = normal({1, N, D}, 3), v = normal({1, N, D}, 4);
  v.select(2, 7).fill_(40), v.select(2, 9).fill_(-50);
  Made made({{"bits", 2}, {"sparsity", 0.02}, {"first_tokens", 3}}, D);
  made.append(k, v);
  const auto kv = made.cache->dequantize();
  EXPECT_TRUE(kv.v.select(2, 7).eq(40).all().item<bool>() && kv.v.select(2, 9).eq(-50).all().item<bool>());
  EXPECT_TRUE(at::equal(kv.k.narrow(1, 0, 3), k.narrow(1, 0, 3).to(at::kHalf).to(at::kFloat)));
  EXPECT_FALSE(at::equal(kv.k.narrow(1, 3, 5), k.narrow(1, 3, 5).to(at::kHalf).to(at::kFloat)));
  // A later key far outside the calibrated range is one as well.
  auto later = normal({1, 1, D}, 5);
  later[0][0][11] = 1000;
  made.append(later, later);
  EXPECT_NEAR(made.cache->dequantize().k[0][N][11].item<float>(), 1000, 1);
}

// Keys whose channels are constants before RoPE: rotated back they cost nothing in accuracy, as they are they do.
TEST(Kvquant, KeysAreQuantizedBeforeRope) {
  constexpr int64_t D = 32, N = 128;
  std::vector<float> rope;
  for (int64_t i = 0; i < D / 2; ++i) rope.push_back(std::pow(1e4f, -2.f * static_cast<float>(i) / D));
  const auto before = normal({1, 1, D}, 6).expand({1, N, D});
  const auto rotated_from = [&](int64_t first) {
    auto k = at::empty({1, N, D});
    for (int64_t t = 0; t < N; ++t) {
      for (int64_t i = 0; i < D / 2; ++i) {
        const double angle = static_cast<double>(first + t) * rope[i], a = before[0][0][i].item<double>(),
                     b = before[0][0][i + D / 2].item<double>();
        k[0][t][i] = a * std::cos(angle) - b * std::sin(angle);
        k[0][t][i + D / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return k;
  };
  const json options = {
      {"bits", 2}, {"levels", "uniform"}, {"sparsity", 0}, {"first_tokens", 0}, {"precision", "exact"}};
  const auto error = [&](std::span<const float> frequencies, int64_t first, int64_t first_position) {
    OpenCache cache("kvquant", options,
                    {.head_dim = D, .rope_frequencies = frequencies, .first_position = first_position});
    const auto k = rotated_from(first);
    cache.append(k, k);
    return ((cache->dequantize().k - k).norm() / k.norm()).item<double>();
  };
  EXPECT_LT(error(rope, 0, 0), 1e-5);
  EXPECT_GT(error({}, 0, 0), 0.05);
  EXPECT_LT(error(rope, 1000, 1000), 1e-5);  // a sliding window hides 1,000 earlier tokens
}

// Integer codes of 300 tokens, one by one, in double: ranges from the first 64 keys, from each value for itself.
TEST(Kvquant, DecodingFor300StepsIsTheSlowReference) {
  constexpr int64_t D = 16, N = 300, kCalibration = 64;
  const auto k = normal({1, N, D}, 7), v = normal({1, N, D}, 8), q = normal({1, N, D}, 9);
  Made made({{"bits", 4}, {"levels", "uniform"}, {"sparsity", 0}, {"first_tokens", 0}, {"precision", "exact"}}, D);
  for (int64_t t = 0; t < N; ++t) made.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
  const auto decoded = [](double x, double low, double high) {
    const double step = (high - low) / 15;
    if (x < low - step / 2 || x > high + step / 2) return x;
    return low + step * std::clamp(std::nearbyint((x - low) / step), 0.0, 15.0);
  };
  auto k_slow = k[0].to(at::kDouble).clone(), v_slow = v[0].to(at::kDouble).clone();
  for (int64_t j = 0; j < D; ++j) {
    const auto seen = k[0].select(1, j).narrow(0, 0, kCalibration).to(at::kDouble);
    for (int64_t t = 0; t < N; ++t)
      k_slow[t][j] = decoded(k_slow[t][j].item<double>(), seen.min().item<double>(), seen.max().item<double>());
  }
  for (int64_t t = 0; t < N; ++t) {
    const double low = v[0][t].min().item<double>(), high = v[0][t].max().item<double>();
    for (int64_t j = 0; j < D; ++j) v_slow[t][j] = decoded(v_slow[t][j].item<double>(), low, high);
  }
  const auto weights = (0.25 * at::matmul(k_slow, q[0][N - 1].to(at::kDouble))).softmax(0);
  const auto got = made.cache->attend(q.narrow(1, N - 1, 1), 0.25)[0][0].to(at::kDouble);
  EXPECT_LT((got - at::matmul(weights, v_slow)).abs().max().item<double>(), 1e-4);
}

// A prompt of several blocks and steps behind it; 3 bits have no loop and are decoded.
TEST(Kvquant, AttendsToCodesAsToWhatTheyStandFor) {
  std::mt19937 random(12);
  std::vector<float> rope;
  for (const int64_t bits : {2, 3, 4}) {
    for (const char* levels : {"uniform", "non_uniform"}) {
      for (const int64_t d : {16, 64, 128}) {
        const int64_t group = 1 + static_cast<int64_t>(random() % 8), n = 70 + static_cast<int64_t>(random() % 1500);
        rope.clear();
        for (int64_t i = 0; i < d / 2; ++i) {
          rope.push_back(std::pow(1e4f, -2.f * static_cast<float>(i) / static_cast<float>(d)));
        }
        const json options = {{"bits", bits}, {"levels", levels}, {"calibration", "sequence"}, {"sparsity", 0.02}};
        const OpenCache cache(
            "kvquant", options,
            {.n_heads = 2 * group,
             .n_kv_heads = 2,
             .head_dim = d,
             .rope_frequencies = random() % 4 != 0 ? std::span<const float>(rope) : std::span<const float>(),
             .sliding_window = random() % 3 == 0 ? 50 : 0,
             .first_position = random() % 2 == 0 ? 777 : 0});
        const auto k = normal({2, n, d}, random()), v = normal({2, n, d}, random());
        k.select(2, 3).mul_(5);
        cache.append(k.narrow(1, 0, n - 3), v.narrow(1, 0, n - 3));
        for (int64_t t = n - 3; t < n; ++t) cache.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
        const auto q = normal({2 * group, 1, d}, random());
        const double scale = 1 / std::sqrt(static_cast<double>(d));
        EXPECT_LT(relative_error(cache->attend(q, scale), cache->LayerCache::attend(q, scale)), 1e-5)
            << bits << " bits, " << levels << ", " << d << " channels, group " << group << ", " << n << " tokens";
      }
    }
  }
}

}  // namespace
}  // namespace kvc::conformance
