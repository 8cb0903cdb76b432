// KVQuant: centroids as good as the public code's, whose records are in the census, sizes, exactness where it is
// promised, and decoding against a slow reference.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../codec.h"  // the codec itself: no option takes centroids from outside
#include "../levels.h"
#include "../matrix.h"
#include "../range.h"
#include "oracle.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;

const PluginLibrary& kvquant() {
  static const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / "kvquant.so");
  return library;
}

at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::kFloat);
}

struct Made {
  Made(const json& options, int64_t n_kv_heads, int64_t head_dim, std::span<const float> rope = {})
      : compressor(kvquant().make(options)),
        cache(compressor->make_cache(
            {.n_heads = n_kv_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim, .rope_frequencies = rope})) {}
  void append(const at::Tensor& k, const at::Tensor& v) {
    cache->append({.q = {}, .k = k, .v = v, .first_position = cache->length()});
  }
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<LayerCache> cache;
};

json whole(int64_t bits, const char* levels, double sparsity) {
  return {{"bits", bits},        {"levels", levels},          {"sparsity", sparsity},
          {"first_tokens", 0},   {"calibration", "sequence"}, {"calibration_tokens", 1},
          {"precision", "exact"}};
}

// Our k-means starts elsewhere and stops elsewhere; its error is the public code's to a hundredth, so that single
// values may differ by up to a cell.
TEST_F(Oracle, KvquantCentroidsAreAsGoodAsThePublicCodes) {
  compare_all({"kvquant.nuq3-1%"}, [](const Record& record) -> std::optional<Route> {
    return Route{"kvquant", whole(3, "non_uniform", 0.01), record.tensor[0] == 'K' ? 'k' : 'v',
                 record.fields.at("max_abs").get<double>(), 0.01};
  });
}

TEST(Kvquant, PaperBytesAreThePrintedBits) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128};
  const auto bits = [&](const json& options) {
    return kvquant().make(options)->paper_bytes(model, 900, 100) * 8 / (2.0 * 4096 * 1000);
  };
  EXPECT_NEAR(bits({}), 4.32, 1e-9);
  EXPECT_NEAR(bits({{"bits", 3}}), 3.33, 0.011);
}

TEST(Kvquant, BytesAreThePencilsOnAndOffTheBorders) {
  constexpr int64_t H = 2, D = 16, M = H * D, kFirst = 2, kCalibration = 32;
  for (const int64_t bits : {2, 3, 4}) {
    for (const char* levels : {"uniform", "non_uniform"}) {
      for (const int64_t n : {1, 2, 3, 33, 34, 35, 99}) {
        Made made({{"bits", bits},
                   {"levels", levels},
                   {"sparsity", 0},
                   {"first_tokens", kFirst},
                   {"calibration", "sequence"},
                   {"calibration_tokens", kCalibration}},
                  H, D);
        // Bounded values: the first ones span the range, so that no later token has an outlier.
        const auto k = normal({H, n, D}, 1).sin(), v = normal({H, n, D}, 2);
        k.narrow(1, std::min<int64_t>(n - 1, 2), 1).fill_(1.5), k.narrow(1, std::min<int64_t>(n - 1, 3), 1).fill_(-1.5);
        made.append(k.narrow(1, 0, (n + 1) / 2), v.narrow(1, 0, (n + 1) / 2));
        for (int64_t t = (n + 1) / 2; t < n; ++t) made.append(k.narrow(1, t, 1), v.narrow(1, t, 1));
        const int64_t encoded = n >= kFirst + kCalibration ? n - kFirst : 0;
        const int64_t codes = 2 * 4 * encoded * ((M * bits + 31) / 32), sides = 4 * encoded + 2 * 2 * encoded;
        const int64_t tables = encoded == 0 ? 0 : 4 * M + (levels[0] == 'u' ? 0 : 2 * 2 * (1 << bits));
        EXPECT_EQ(made.cache->footprint().total_bytes(), codes + sides + tables + 4 * M * (n - encoded))
            << bits << " " << levels << " " << n;
      }
    }
  }
}

// Each of the two outliers of a token costs a value and an index of 16 bits, and comes back as it was.
TEST(Kvquant, OutliersAndFirstTokensAreExact) {
  constexpr int64_t D = 64, N = 100;
  auto k = normal({1, N, D}, 3), v = normal({1, N, D}, 4);
  v.select(2, 7).fill_(40), v.select(2, 9).fill_(-50);
  Made made({{"bits", 2}, {"sparsity", 0.02}, {"first_tokens", 3}}, 1, D);
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

// Keys whose channels are constants before RoPE: turned back they cost nothing in accuracy, as they are they do.
TEST(Kvquant, KeysAreQuantizedBeforeRope) {
  constexpr int64_t D = 32, N = 128;
  std::vector<float> rope;
  for (int64_t i = 0; i < D / 2; ++i) rope.push_back(std::pow(1e4f, -2.f * static_cast<float>(i) / D));
  const auto before = normal({1, 1, D}, 6).expand({1, N, D});
  auto k = at::empty({1, N, D});
  for (int64_t t = 0; t < N; ++t) {
    for (int64_t i = 0; i < D / 2; ++i) {
      const double angle = static_cast<double>(t) * rope[i], a = before[0][0][i].item<double>(),
                   b = before[0][0][i + D / 2].item<double>();
      k[0][t][i] = a * std::cos(angle) - b * std::sin(angle);
      k[0][t][i + D / 2] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  const json options = {
      {"bits", 2}, {"levels", "uniform"}, {"sparsity", 0}, {"first_tokens", 0}, {"precision", "exact"}};
  const auto error = [&](std::span<const float> frequencies) {
    Made made(options, 1, D, frequencies);
    made.append(k, k);
    return ((made.cache->dequantize().k - k).norm() / k.norm()).item<double>();
  };
  EXPECT_LT(error(rope), 1e-5);
  EXPECT_GT(error({}), 0.05);
}

// Integer codes of 300 tokens, one by one, in double: ranges from the first 64 keys, from each value for itself.
TEST(Kvquant, DecodingFor300StepsIsTheSlowReference) {
  constexpr int64_t D = 16, N = 300, kCalibration = 64;
  const auto k = normal({1, N, D}, 7), v = normal({1, N, D}, 8), q = normal({1, N, D}, 9);
  Made made({{"bits", 4}, {"levels", "uniform"}, {"sparsity", 0}, {"first_tokens", 0}, {"precision", "exact"}}, 1, D);
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

}  // namespace
}  // namespace kvc::conformance
