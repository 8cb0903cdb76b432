// oscar against its steps in float64: rotations from covariances, clipping, codes; and what a calibration must be.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "attention64.h"
#include "kvc/calibration.h"
#include "support/message_of.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;

constexpr int64_t D = 32;
const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = D};
const LayerInfo kInfo{.layer = 1, .n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = D};
const json kSmall = {{"sinks", 3}, {"recent", 5}, {"group_size", 16}, {"precision", "exact"}};

json with(json more) {
  json options = kSmall;
  options.update(more);
  return options;
}
// Any file will do, since the host is who reads it.
json calibrated(json more = json::object()) {
  more["calibration"] = KVC_BINARY_DIR "/CMakeCache.txt";
  return with(more);
}

// Tokens whose channels are mixed and of very different size, as K's are.
RandomTokens mixed_tokens(int64_t n, uint64_t seed) {
  RandomTokens x(kInfo, n, seed);
  auto generator = at::detail::createCPUGenerator(77);
  const auto mix = at::randn({D, D}, generator, at::kFloat) * (at::arange(D, at::kFloat) / -6).exp();
  x.q = at::matmul(x.q, mix), x.k = at::matmul(x.k, mix.t()) * 3, x.v = at::matmul(x.v, mix);
  for (auto* t : {&x.q, &x.k, &x.v}) *t = t->to(at::kHalf).to(at::kFloat);
  return x;
}

// Layers differ: in layer 1 the channels stand the other way round.
at::Tensor of_layer(const at::Tensor& x, int64_t layer) { return layer == 0 ? x : x.flip(2); }

NamedTensors learned(const std::vector<RandomTokens>& pieces, bool queries = true) {
  const auto compressor = plugin("oscar").make(calibrated());
  const auto calibrator = dynamic_cast<const Calibrated&>(*compressor).make_calibrator(kModel);
  for (const auto& x : pieces) {
    for (int64_t layer = 0; layer < 2; ++layer) {
      calibrator->observe(
          layer_info(kModel, layer, 0, {}),
          {of_layer(x.k, layer), of_layer(x.v, layer), {}, {}, queries ? of_layer(x.q, layer) : at::Tensor()});
    }
  }
  return calibrator->finish();
}

double sign_of(int64_t i, int64_t j) { return std::popcount(static_cast<uint64_t>(i & j)) % 2 ? -1 : 1; }

// The published covariances in loops of float64 over tokens of one layer. [D, D] each
std::pair<at::Tensor, at::Tensor> slow_covariances(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  auto of_k = at::zeros({D, D}, at::kDouble), of_v = of_k.clone();
  const int64_t n = k.size(1), group = q.size(0) / k.size(0);
  for (int64_t h = 0; h < k.size(0); ++h) {
    auto a = at::zeros({D, D}, at::kDouble);
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t t = 0; t < n; ++t) {
        const auto row = q[h * group + g][t].to(at::kDouble);
        a += at::outer(row, row) / static_cast<double>(n * group);
      }
    }
    std::vector<double> weights;
    double sum = 0;
    for (int64_t t = 0; t < n; ++t) {
      const auto key = k[h][t].to(at::kDouble);
      weights.push_back(key.dot(at::mv(a, key)).item<double>());
      sum += weights.back();
    }
    for (int64_t t = 0; t < n; ++t) {
      const auto row = v[h][t].to(at::kDouble);
      of_v += at::outer(row, row) * (weights[static_cast<size_t>(t)] / sum) / static_cast<double>(k.size(0));
    }
    of_k += a / static_cast<double>(k.size(0));
  }
  return {of_k, of_v};
}

// What makes a matrix R H P of a covariance: undone, P and H leave its eigenvectors, the largest eigenvalue last.
void expect_rotation(const at::Tensor& rotation, const at::Tensor& covariance) {
  const auto x = rotation.to(at::kDouble);
  ASSERT_LT((at::matmul(x.t(), x) - at::eye(D, at::kDouble)).abs().max().item<double>(), 1e-5);
  auto without_p = at::empty({D, D}, at::kDouble);
  for (int64_t j = 0; j < D; ++j) {  // D = 32: five bits
    const int64_t reversed = (j & 1) << 4 | (j & 2) << 2 | (j & 4) | (j & 8) >> 2 | (j & 16) >> 4;
    without_p.select(1, D - 1 - reversed).copy_(x.select(1, j));  // j is where the reversed-th largest came to stand
  }
  auto vectors = at::zeros({D, D}, at::kDouble);
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t j = 0; j < D; ++j) vectors.select(1, j) += without_p.select(1, i) * (sign_of(i, j) / std::sqrt(D));
  }
  const auto images = at::matmul(covariance, vectors);
  double last = -1;
  for (int64_t j = 0; j < D; ++j) {
    const double value = vectors.select(1, j).dot(images.select(1, j)).item<double>();
    EXPECT_LT((images.select(1, j) - vectors.select(1, j) * value).norm().item<double>(),
              1e-5 * covariance.norm().item<double>())
        << j;
    EXPECT_GE(value, last - 1e-6 * covariance.norm().item<double>()) << j;
    EXPECT_GT(vectors.select(1, j)[vectors.select(1, j).abs().argmax()].item<double>(), 0)
        << j;  // signs tell P from others
    last = value;
  }
}

TEST(OscarCalibration, RotationsAreThePublishedOnes) {
  const auto a = mixed_tokens(90, 3), b = mixed_tokens(41, 4);
  const auto tensors = learned({a, b});
  for (int64_t layer = 0; layer < 2; ++layer) {
    SCOPED_TRACE(layer);
    const auto all = [&](const at::Tensor& x, const at::Tensor& y) { return of_layer(at::cat({x, y}, 1), layer); };
    const auto [of_k, of_v] = slow_covariances(all(a.q, b.q), all(a.k, b.k), all(a.v, b.v));
    expect_rotation(tensors.at("k.rotation")[layer], of_k);
    expect_rotation(tensors.at("v.rotation")[layer], of_v);
  }
}

// One token [D] through the published steps.
at::Tensor slow_oscar(const at::Tensor& x, const at::Tensor& rotation, double clip, int64_t group, int64_t bits) {
  auto y = at::mv(rotation.t(), x.to(at::kDouble)).contiguous();
  const auto sizes = std::get<0>(y.abs().sort()).contiguous();
  const double most = sizes.const_data_ptr<double>()[std::min<int64_t>(static_cast<int64_t>(clip * D), D - 1)];
  auto* row = y.data_ptr<double>();
  for (int64_t first = 0; first < D; first += group) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = first; j < first + group; ++j) {
      row[j] = std::clamp(row[j], -most, most);
      low = std::min(low, row[j]), high = std::max(high, row[j]);
    }
    const double step = std::max(high - low, 1e-8) / static_cast<double>((1 << bits) - 1), zero = -low / step;
    for (int64_t j = first; j < first + group; ++j) row[j] = (std::floor(row[j] / step + zero + 0.5) - zero) * step;
  }
  return at::mv(rotation, y);
}

TEST(Oscar, TokensAreThePublishedSteps) {
  const auto x = mixed_tokens(40, 5);
  const auto tensors = learned({mixed_tokens(200, 6)});
  for (const bool has_file : {true, false}) {
    auto hadamard = at::empty({D, D}, at::kDouble);
    for (int64_t i = 0; i < D * D; ++i) hadamard.data_ptr<double>()[i] = sign_of(i / D, i % D) / std::sqrt(D);
    for (const int64_t bits : {2, 4}) {
      const auto compressor = plugin("oscar").make(has_file ? calibrated({{"bits", bits}}) : with({{"bits", bits}}));
      if (has_file) dynamic_cast<Calibrated&>(*compressor).load(kModel, tensors);
      const auto cache = compressor->make_cache(kInfo);
      cache->append(x.part(0, 30));
      for (int64_t t = 30; t < 40; ++t) cache->append(x.part(t, 1));
      EXPECT_EQ(cache->n_encoded_tokens(), 40 - 3 - 5);
      const auto held = cache->dequantize();
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t t = 0; t < 40; ++t) {
          const bool exact = t < 3 || t >= 35;
          const auto expected = [&](const at::Tensor& all, const char* name, double clip) {
            const auto rotation = has_file ? tensors.at(name)[1].to(at::kDouble) : hadamard;
            return exact ? all[h][t].to(at::kDouble) : slow_oscar(all[h][t], rotation, clip, 16, bits);
          };
          const auto error = [&](const at::Tensor& got, const at::Tensor& want) {
            return (got.to(at::kDouble) - want).abs().max().item<double>() / want.abs().max().item<double>();
          };
          EXPECT_LT(error(held.k[h][t], expected(x.k, "k.rotation", 0.96)), exact ? 1e-12 : 1e-5) << t;
          EXPECT_LT(error(held.v[h][t], expected(x.v, "v.rotation", 0.92)), exact ? 1e-12 : 1e-5) << t;
        }
      }
    }
  }
}

// Keys and queries share a direction that the Hadamard matrix alone gathers in one channel, which is clipped; between
// the eigenvectors of the queries' covariance and the codes it spreads that direction over all of them.
TEST(Oscar, SpreadsTheDirectionThatQueriesAttendBy) {
  const auto tokens = [](int64_t n, uint64_t seed) {
    RandomTokens x(kInfo, n, seed);
    auto direction = at::empty({D}, at::kFloat);
    for (int64_t j = 0; j < D; ++j) direction.data_ptr<float>()[j] = static_cast<float>(sign_of(3, j));
    x.q = x.q + direction * 2, x.k = x.k + direction * 3;
    return x;
  };
  const auto x = tokens(400, 7);
  const auto tensors = learned({tokens(600, 8)});
  const auto error = [&](bool has_file) {
    json options = {{"sinks", 0}, {"recent", 0}};
    if (has_file) options["calibration"] = KVC_BINARY_DIR "/CMakeCache.txt";
    const auto compressor = plugin("oscar").make(options);
    if (has_file) dynamic_cast<Calibrated&>(*compressor).load(kModel, tensors);
    const auto cache = compressor->make_cache(kInfo);
    cache->append(x.part(0, 400));
    const auto scores = [&](const at::Tensor& k) { return at::matmul(x.q, k.repeat_interleave(2, 0).transpose(1, 2)); };
    return relative_error(scores(cache->dequantize().k), scores(x.k));
  };
  EXPECT_LT(error(true), error(false) / 4);
}

TEST(Oscar, AttendsLikeFloat64OverWhatItDecodesTo) {
  const auto x = mixed_tokens(100, 9);
  const auto compressor = plugin("oscar").make(calibrated({{"precision", "real"}}));
  dynamic_cast<Calibrated&>(*compressor).load(kModel, learned({mixed_tokens(100, 10)}));
  const auto cache = compressor->make_cache(kInfo);
  for (int64_t t = 0; t < 100; ++t) {
    cache->append(x.part(t, 1));
    if (t % 9 == 0) expect_attends(*cache, x.q.narrow(1, t, 1), 0.1);
  }
}

// "2.28 bits": 2.25 of a code with its share of scale and minimum, and 320 exact tokens in a text of 128 K.
TEST(Oscar, BytesAreThePapersAtEveryLength) {
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  const ModelShape shape{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  const RandomTokens x(info, 700);
  const OpenCache cache("oscar", {}, info);
  for (const int64_t n : {1, 64, 320, 321, 385, 700}) {
    cache->append(x.part(cache->length(), n - cache->length()));
    const int64_t encoded = std::max<int64_t>(n - 320, 0);
    EXPECT_EQ(cache->n_encoded_tokens(), encoded);
    const double expected = 2 * 2 * (static_cast<double>(encoded) * 36 + static_cast<double>(n - encoded) * 256);
    EXPECT_EQ(cache->footprint().total_bytes(), expected) << n;
    EXPECT_NEAR(cache.compressor->paper_bytes(shape, n, 0), expected, 1e-6) << n;
  }
  const double bits = cache.compressor->paper_bytes(shape, 131072, 0) * 8 / (131072.0 * 2 * 2 * 128);
  EXPECT_NEAR(bits, 2.28, 0.005);
  // A head of 64 is one group: 16 bytes of codes and 4 of scale and minimum.
  const LayerInfo small{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  const OpenCache other("oscar", {{"sinks", 0}, {"recent", 0}}, small);
  other->append(RandomTokens(small, 10).part(0, 10));
  EXPECT_EQ(other->footprint().total_bytes(), 2 * 2 * 10 * 20);
}

TEST(Oscar, RefusesInOneLineWhatDoesNotFit) {
  const auto refusal = [](const NamedTensors& tensors) {
    return test::message_of([&] {
      const auto compressor = plugin("oscar").make(calibrated());
      dynamic_cast<Calibrated&>(*compressor).load(kModel, tensors);
    });
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const auto tensors = learned({mixed_tokens(64, 11)});
  EXPECT_EQ(refusal(tensors), "no error");
  auto changed = tensors;
  changed.erase("v.rotation");
  EXPECT_TRUE(has(refusal(changed), "oscar: no tensor 'v.rotation'"));
  changed = tensors;
  changed["k.rotation"] = at::zeros({2, 16, 16});
  EXPECT_TRUE(has(refusal(changed), "'k.rotation' is [2, 16, 16] Float, this model needs [2, 32, 32] Float"));
  for (const auto& bad : {tensors.at("k.rotation") * 1.01, at::full({2, D, D}, NAN)}) {
    changed["k.rotation"] = bad;
    EXPECT_TRUE(has(refusal(changed), "'k.rotation' is not a rotation")) << refusal(changed);
  }
  EXPECT_THROW(plugin("oscar").make(calibrated())->make_cache(kInfo), Error);  // not loaded
  EXPECT_THROW(learned({mixed_tokens(20, 12)}), Error);                        // fewer tokens than channels
  EXPECT_THROW(learned({mixed_tokens(64, 13)}, false), Error);                 // no queries
  const auto compressor = plugin("oscar").make(json::object());
  EXPECT_THROW(compressor->check_model({.n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 96}), Error);
}

}  // namespace
}  // namespace kvc::conformance
