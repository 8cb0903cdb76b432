// kvquant from calibration: k-means and thresholds in closed form, gradients as weights, Q-Norm, capped outliers, and
// what is refused.
#include "kvc/calibration.h"

#include "../levels.h"
#include "kvc/quant/rope.h"
#include "method.h"
#include "support/message_of.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

constexpr int64_t H = 2, D = 16, M = H * D;
const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = H, .head_dim = D};

const PluginLibrary& kvquant() { return plugin("kvquant"); }

// Options of a calibrated compressor: any file will do, since the host is who reads it.
json calibrated(json options) {
  options["calibration"] = KVC_BINARY_DIR "/CMakeCache.txt";
  return options;
}

std::unique_ptr<LayerCache> cache_of(const Compressor& compressor, std::span<const float> rope = {}) {
  return compressor.make_cache(layer_info(kModel, 1, 0, rope));
}

// What the options learn from these pieces, the same in both layers.
NamedTensors learned(const json& options, const std::vector<CalibrationTokens>& pieces,
                     std::span<const float> rope = {}) {
  const auto compressor = kvquant().make(options);
  const auto calibrator = dynamic_cast<const Calibrated&>(*compressor).make_calibrator(kModel);
  for (const auto& piece : pieces) {
    for (int64_t layer = 0; layer < kModel.n_layers; ++layer) {
      calibrator->observe(layer_info(kModel, layer, 0, rope), piece);
    }
  }
  return calibrator->finish();
}

std::string refusal(const json& options, const NamedTensors& tensors) {
  return test::message_of([&] {
    const auto compressor = kvquant().make(options);
    compressor->check_model(kModel);
    dynamic_cast<Calibrated&>(*compressor).load(kModel, tensors);
  });
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(KvquantLevels, OfTwoClustersAreTheirMeans) {
  // 1 bit is no option of the plugin, but of the function: two clusters at -1 and 3, of which each has two points.
  const auto levels = ::kvquant::centroids(at::tensor({-1.5f, 3.25f, -0.5f, 2.75f}), 1);
  EXPECT_EQ(levels, (std::vector<float>{-1, 3}));
}

TEST(KvquantLevels, AreWeightedMeans) {
  // (3 * -2 + 1 * 2) / 4 = -1; a point without a weight pulls at nothing.
  const auto levels =
      ::kvquant::centroids(at::tensor({-2.f, 2.f, 9.f, 10.f, 100.f}), 1, at::tensor({3.f, 1.f, 2.f, 2.f, 0.f}));
  EXPECT_EQ(levels, (std::vector<float>{-1, 9.5f}));
}

TEST(KvquantLevels, OfTooFewValuesAreEvenlySpaced) {
  EXPECT_EQ(::kvquant::centroids(at::tensor({0.5f, 0.7f}), 2), (std::vector<float>{-0.75f, -0.25f, 0.25f, 0.75f}));
}

TEST(KvquantLevels, QNormKeepsMeanAndDeviation) {
  const auto z = normal({5000}, 1).mul_(0.3).add_(0.1);
  const auto levels = ::kvquant::centroids(z, 2);
  const auto decoded = ::kvquant::normalized(levels, ::kvquant::moments_of(z, levels));
  const auto middles = at::tensor(::kvquant::middles_of(levels));
  const auto y = at::tensor(decoded).index_select(0, at::bucketize(z, middles));
  EXPECT_NEAR(y.mean().item<double>(), z.mean().item<double>(), 1e-5);
  EXPECT_NEAR(y.std(0, false).item<double>(), z.std(0, false).item<double>(), 1e-5);
  EXPECT_LT(at::tensor(levels).index_select(0, at::bucketize(z, middles)).std(0, false).item<double>(),
            0.97 * z.std(0, false).item<double>());  // without it the deviation shrinks
}

// Channel j of 201 keys takes each of j + 0, 0.01, ..., 2: its quantiles at 1 % and 99 % are j + 0.02 and j + 1.98.
TEST(KvquantCalibration, ThresholdsAreQuantilesOfEachChannelBehindTheFirstTokens) {
  constexpr int64_t N = 201;
  const auto ramp =
      at::arange(0, N, at::kFloat).div_(100).view({1, N, 1}) + at::arange(0, M, at::kFloat).view({H, 1, D});
  const auto first = at::full({H, 3, D}, 1e4f);  // the sink
  const auto k = at::cat({first, ramp}, 1), v = normal({H, N + 3, D}, 2);
  const auto tensors = learned({{"sparsity", 0.02}, {"first_tokens", 3}}, {{k, v, {}, {}}});
  const auto channel = at::arange(0, M, at::kFloat);
  for (int64_t layer = 0; layer < 2; ++layer) {
    EXPECT_LT((tensors.at("k.lower")[layer] - channel - 0.02).abs().max().item<double>(), 1e-5);
    EXPECT_LT((tensors.at("k.upper")[layer] - channel - 1.98).abs().max().item<double>(), 1e-5);
    EXPECT_LT((tensors.at("k.smallest")[layer] - channel - 0.03).abs().max().item<double>(), 1e-5);
    EXPECT_LT((tensors.at("k.largest")[layer] - channel - 1.97).abs().max().item<double>(), 1e-5);
  }
}

// All keys of a channel are two values, so that two of the four centroids are enough: nothing is lost but fp16.
TEST(KvquantCalibration, LevelsAreThoseOfTheTexts) {
  auto k = normal({H, 400, D}, 3).sign(), v = normal({H, 400, D}, 4).sign();
  const auto options = calibrated({{"bits", 2}, {"levels", "non_uniform"}, {"sparsity", 0}, {"precision", "exact"}});
  const auto compressor = kvquant().make(options);
  dynamic_cast<Calibrated&>(*compressor).load(kModel, learned(options, {{k, v, {}, {}}}));
  const auto cache = cache_of(*compressor);
  const auto later = normal({H, 50, D}, 5).sign();
  cache->append({.q = {}, .k = later, .v = later, .first_position = 0});
  EXPECT_EQ(cache->n_encoded_tokens(), 49);  // nothing waits
  EXPECT_LT((cache->dequantize().k - later).abs().max().item<double>(), 1e-5);
  EXPECT_LT((cache->dequantize().v - later).abs().max().item<double>(), 1e-5);
}

// Gradients decide which clusters the centroids serve, and are rotated back with the keys.
TEST(KvquantCalibration, GradientsWeighTheCentroids) {
  const auto k = normal({H, 300, D}, 6), v = normal({H, 300, D}, 7), g = normal({H, 300, D}, 8);
  std::vector<float> rope;
  for (int64_t i = 0; i < D / 2; ++i) rope.push_back(std::pow(100.f, -2.f * static_cast<float>(i) / D));
  const json options = {{"sparsity", 0}, {"first_tokens", 0}};
  const auto at_rest = learned(options, {{k, v, g, g}});
  const auto rotated = learned(options, {{turned(k, 0, rope, 1), v, turned(g, 0, rope, 1), g}}, rope);
  const auto unweighted = learned(options, {{k, v, {}, {}}});
  for (const char* name : {"k.levels.3", "v.levels.3", "k.lower"}) {
    EXPECT_LT((at_rest.at(name) - rotated.at(name)).abs().max().item<double>(), 1e-4) << name;
  }
  EXPECT_GT((at_rest.at("k.levels.3") - unweighted.at("k.levels.3")).abs().max().item<double>(), 1e-3);
  EXPECT_GT((at_rest.at("v.levels.3") - unweighted.at("v.levels.3")).abs().max().item<double>(), 1e-3);
}

// Ten channels of one key lie far outside: capped at int(0.1/2 * 32) + 1 = 2 a side, the furthest two stay exact.
TEST(KvquantCalibration, KeyOutliersOfATokenAreCapped) {
  const auto k = normal({H, 500, D}, 9), v = normal({H, 500, D}, 10);
  auto later = at::zeros({H, 2, D});
  later[0][1].narrow(0, 0, 10).copy_(at::arange(10, 20, at::kFloat));
  for (const char* rule : {"all", "capped"}) {
    const auto options = calibrated({{"sparsity", 0.1}, {"key_outliers", rule}, {"precision", "exact"}});
    const auto compressor = kvquant().make(options);
    dynamic_cast<Calibrated&>(*compressor).load(kModel, learned(options, {{k, v, {}, {}}}));
    const auto cache = cache_of(*compressor);
    cache->append({.q = {}, .k = later, .v = later, .first_position = 0});
    const auto n_exact = cache->dequantize().k[0][1].narrow(0, 0, 10).eq(later[0][1].narrow(0, 0, 10)).sum();
    EXPECT_EQ(n_exact.item<int64_t>(), rule[0] == 'a' ? 10 : 2);
  }
}

TEST(KvquantCalibration, IsRefusedInOneLineWhereItIsMissingOrOfAnotherShape) {
  EXPECT_TRUE(has(refusal({{"levels", "non_uniform"}}, {}), "expected a file written by kvc calibrate, or sequence"));
  EXPECT_TRUE(has(refusal({{"levels", "non_uniform"}, {"calibration", "sequence"}, {"centroids", "q_norm"}}, {}),
                  "centroids q_norm with levels non_uniform and calibration sequence"));
  EXPECT_THROW(kvquant().make({{"calibration", "/no/such/file"}}), Error);
  const auto options = calibrated({{"levels", "non_uniform"}});
  auto tensors = learned(options, {{normal({H, 90, D}, 11), normal({H, 90, D}, 12), {}, {}}});
  EXPECT_EQ(refusal(options, tensors), "no error");
  EXPECT_THROW(cache_of(*kvquant().make(options)), Error);  // not loaded
  auto changed = tensors;
  changed.erase("v.levels.4");
  EXPECT_TRUE(has(refusal(options, changed), "no tensor 'v.levels.4'"));
  changed = tensors;
  changed["k.lower"] = at::zeros({2, M + 1});
  EXPECT_TRUE(has(refusal(options, changed), "'k.lower' is [2, 33] Float, this model needs [2, 32] Float"))
      << refusal(options, changed);
  changed = tensors;
  changed["k.upper"] = tensors["k.lower"] - 1;
  EXPECT_TRUE(has(refusal(options, changed), "a lower threshold is above its upper one"));
  changed["k.upper"] = at::full({2, M}, NAN);
  EXPECT_TRUE(has(refusal(options, changed), "not finite"));
  EXPECT_THROW(learned(options, {{normal({H, 1, D}, 13), normal({H, 1, D}, 14), {}, {}}}), Error);  // the sink alone
}

}  // namespace
}  // namespace kvc::conformance
