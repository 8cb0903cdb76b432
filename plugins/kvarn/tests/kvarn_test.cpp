#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "../balance.h"
#include "attention64.h"

namespace kvc::conformance {
namespace {

const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
const nlohmann::json kSmall = {{"tile", 16}, {"sinks", 8}};

nlohmann::json options(nlohmann::json more) {
  more.update(kSmall);
  return more;
}

// Sylvester's matrix by its definition: the sign of the bits that i and j share.
at::Tensor hadamard(int64_t d) {
  auto matrix = at::empty({d, d}, at::kDouble);
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      matrix.data_ptr<double>()[i * d + j] =
          (std::popcount(static_cast<uint64_t>(i & j)) % 2 ? -1 : 1) / std::sqrt(static_cast<double>(d));
    }
  }
  return matrix;
}

at::Tensor deviation(const at::Tensor& x, int64_t dim) { return x.std(dim, /*unbiased=*/true, true).clamp(1e-3, 1e3); }
double ratio(const at::Tensor& x) { return (x.max() / x.min()).item<double>(); }
double imbalance(const at::Tensor& x) { return ratio(deviation(x, 0)) + ratio(deviation(x, 1)); }

// The published rule in tensors of float64: x [rows, columns]; the factor of each column and row.
std::pair<at::Tensor, at::Tensor> slow_factors(const at::Tensor& x, int64_t rounds) {
  auto columns = at::zeros({1, x.size(1)}, at::kDouble), rows = at::zeros({x.size(0), 1}, at::kDouble);  // logarithms
  const auto divided = [&] { return x / (columns + rows).exp(); };
  auto best = std::pair{columns, rows};
  double least = imbalance(x);
  for (int64_t i = 0; i < rounds; ++i) {
    columns = (columns + deviation(divided(), 0).log()).clamp(-0.3, 10);
    rows = (rows + deviation(divided(), 1).log()).clamp(-0.3, 10);
    if (imbalance(divided()) <= least) least = imbalance(divided()), best = {columns, rows};
  }
  return {best.first.exp(), best.second.exp()};
}

// A tile through the published steps: the row's factor divided out before it is quantized, and put back.
at::Tensor slow_kvarn(const at::Tensor& tile, int64_t bits, bool by_token, int64_t rounds) {  // [G, D] -> [G, D]
  const auto turn = hadamard(tile.size(1));
  const auto rotated = tile.to(at::kDouble).matmul(turn);
  const auto x = by_token ? rotated.t() : rotated;  // rows are quantized
  const auto [columns, rows] = slow_factors(x, rounds);
  const auto y = x / columns / rows;
  const auto low = y.amin(1, true), step = ((y.amax(1, true) - low) / ((1 << bits) - 1)).clamp_min(1e-10);
  const auto decoded = (((y - low) / step).round() * step + low) * columns * rows;
  return (by_token ? decoded.t() : decoded).matmul(turn);
}

// Tokens whose channels and rows differ in size, as K's do.
RandomTokens uneven_tokens(const LayerInfo& info, int64_t n) {
  RandomTokens x(info, n, 3);
  const auto of_channels = (at::arange(info.head_dim, at::kFloat) / 8).exp();
  const auto of_tokens = (at::arange(n, at::kFloat).sin() * 2).exp().unsqueeze(1);
  x.k = (x.k * of_channels * of_tokens).to(at::kHalf).to(at::kFloat);
  x.v = (x.v * of_tokens).to(at::kHalf).to(at::kFloat);
  return x;
}

TEST(Kvarn, TilesAreThePublishedSteps) {
  const auto x = uneven_tokens(kInfo, 8 + 2 * 16 + 5);
  for (const int64_t rounds : {0, 1, 16}) {
    const OpenCache cache("kvarn", options({{"precision", "exact"}, {"rounds", rounds}}), kInfo);
    cache->append(x.part(0, x.k.size(1)));
    ASSERT_EQ(cache->n_encoded_tokens(), 32);
    const auto held = cache->dequantize();
    for (int64_t h = 0; h < 2; ++h) {
      for (const int64_t first : {8, 24}) {
        const auto difference = [&](const at::Tensor& got, const at::Tensor& all, int64_t bits, bool by_token) {
          const auto tile = all[h].narrow(0, first, 16), expected = slow_kvarn(tile, bits, by_token, rounds);
          return ((got[h].narrow(0, first, 16) - expected).norm() / tile.norm()).item<double>();
        };
        EXPECT_LT(difference(held.k, x.k, 4, true), 1e-5) << rounds << " rounds, head " << h << ", token " << first;
        EXPECT_LT(difference(held.v, x.v, 2, false), 1e-5) << rounds << " rounds, head " << h << ", token " << first;
      }
    }
    for (const auto& [first, n] : {std::pair{0, 8}, {40, 5}}) {  // sinks, and what fills no tile
      EXPECT_TRUE(at::equal(held.k.narrow(1, first, n), x.k.narrow(1, first, n)));
      EXPECT_TRUE(at::equal(held.v.narrow(1, first, n), x.v.narrow(1, first, n)));
    }
  }
}

TEST(Kvarn, BalancingNeverLeavesATileMoreUneven) {
  auto generator = at::detail::createCPUGenerator(5);
  for (int i = 0; i < 40; ++i) {
    const auto spread = at::randn({32}, generator, at::kFloat).mul(i / 10).exp();
    const auto tile = (at::randn({16, 32}, generator, at::kFloat) * spread).contiguous();
    const auto factors = kvarn::column_factors(tile.const_data_ptr<float>(), 16, 32, kvarn::Columns::channels, 16);
    const auto columns = at::tensor(at::ArrayRef<double>(factors)).unsqueeze(0);
    const auto [expected, rows] = slow_factors(tile.to(at::kDouble), 16);
    EXPECT_LT(((columns - expected) / expected).abs().max().item<double>(), 1e-9);
    EXPECT_LE(imbalance(tile / columns / rows), imbalance(tile.to(at::kDouble)) + 1e-9);
  }
}

// Half a step of each row, through the rotation: the norm of a tile's error.
TEST(Kvarn, ErrorStaysWithinHalfAStepOfEachRow) {
  const auto x = uneven_tokens(kInfo, 8 + 16);
  const OpenCache cache("kvarn", options({{"k_bits", 2}, {"rounds", 0}}), kInfo);
  cache->append(x.part(0, 24));
  const auto rotated = x.k.narrow(1, 8, 16).to(at::kDouble).matmul(hadamard(32));
  const auto got = cache->dequantize().k.narrow(1, 8, 16).to(at::kDouble).matmul(hadamard(32));
  const auto range = rotated.amax(1, true) - rotated.amin(1, true);
  EXPECT_TRUE((got - rotated).abs().le(range / 3 / 2 + 0.003 * range).all().item<bool>());
}

// The method's reason: tokens of different size in one channel's group.
TEST(Kvarn, BalancedTilesOfUnevenTokensAreNearerThanPlainOnes) {
  const auto x = uneven_tokens(kInfo, 8 + 64);
  const auto error = [&](int64_t rounds) {
    const OpenCache cache("kvarn", options({{"rounds", rounds}}), kInfo);
    cache->append(x.part(0, 72));
    const auto squares = [](const at::Tensor& y) { return y.square().sum(at::IntArrayRef{0, 2}); };
    return (squares(cache->dequantize().k - x.k) / squares(x.k)).sqrt().mean().item<double>();
  };
  EXPECT_LT(error(16), error(0) / 1.5);
}

TEST(Kvarn, AttendsLikeFloat64OverWhatItDecodesTo) {
  const auto x = uneven_tokens(kInfo, 100);
  const OpenCache cache("kvarn", options({}), kInfo);
  std::vector<int64_t> seen;
  for (int64_t t = 0; t < 100; ++t) {
    cache->append(x.part(t, 1));
    seen.push_back(t);
    if (t % 11 != 0 && t < 95) continue;
    RandomTokens decoded = x;
    const auto held = cache->dequantize();
    decoded.k = held.k, decoded.v = held.v;
    EXPECT_LT(attention_error(*cache.operator->(), decoded, t, {seen, seen}), 2e-3) << t;
  }
}

// "4.375 and 2.375 bits" at tiles of 128 and heads of 128, and the staircase of what is measured.
TEST(Kvarn, BytesAreThePapersAtEveryLength) {
  const LayerInfo info{.n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  const ModelShape shape{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 128};
  const RandomTokens x(info, 520);
  const OpenCache cache("kvarn", {}, info);
  for (const auto& [n, tiles] : {std::pair{128, 0}, {255, 0}, {256, 1}, {383, 1}, {384, 2}, {520, 3}}) {
    cache->append(x.part(cache->length(), n - cache->length()));
    EXPECT_EQ(cache->n_encoded_tokens(), tiles * 128);
    const double per_token = 2 * 128 * (4.375 + 2.375) / 8;
    const double expected = tiles * 128 * per_token + (n - tiles * 128) * 2.0 * 2 * 128 * 2;
    EXPECT_EQ(cache->footprint().total_bytes(), expected) << n;
    EXPECT_NEAR(cache.compressor->paper_bytes(shape, n, 0), expected, 1e-6) << n;
  }
}

TEST(Kvarn, RefusesHeadsThatAreNoPowerOfTwo) {
  const OpenCache cache("kvarn", {}, kInfo);
  EXPECT_THROW(cache.compressor->check_model({.n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 80}), Error);
  EXPECT_NO_THROW(cache.compressor->check_model({.n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 64}));
}

}  // namespace
}  // namespace kvc::conformance
