// oscar_tni against its steps in float64 loops, and what it is for: keys of uneven norms in one group.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "attention64.h"

namespace kvc::conformance {
namespace {

constexpr int64_t D = 32;
const LayerInfo kInfo{.n_heads = 4, .n_kv_heads = 2, .head_dim = D};

nlohmann::json small(nlohmann::json more = nlohmann::json::object()) {
  nlohmann::json options = {{"group_size", 16}, {"buffer", 32}};
  options.update(more);
  return options;
}

at::Tensor hadamard() {  // Sylvester's matrix by its definition: the sign of the bits that i and j share
  auto matrix = at::empty({D, D}, at::kDouble);
  for (int64_t i = 0; i < D * D; ++i) {
    matrix.data_ptr<double>()[i] =
        (std::popcount(static_cast<uint64_t>((i / D) & (i % D))) % 2 ? -1 : 1) / std::sqrt(D);
  }
  return matrix;
}

// Each run of 16 entries of the rows of x [n, 16 m] on its own even steps.
at::Tensor slow_codes(const at::Tensor& x, int64_t bits) {
  auto y = x.contiguous().clone();
  for (int64_t first = 0; first < y.numel(); first += 16) {
    auto* group = y.data_ptr<double>() + first;
    const auto [low, high] = std::minmax_element(group, group + 16);
    const double zero = *low, step = (*high - *low) / static_cast<double>((1 << bits) - 1);
    for (int64_t j = 0; j < 16 && step > 0; ++j) group[j] = std::nearbyint((group[j] - zero) / step) * step + zero;
  }
  return y;
}

// Tokens of very uneven norms: one in nine is 20 times as large, the first ones 50 times as small.
RandomTokens uneven_tokens(int64_t n) {
  RandomTokens x(kInfo, n, 3);
  for (int64_t t = 0; t < n; ++t) x.k.select(1, t).mul_(t < 2 ? 0.02 : t % 9 == 0 ? 20 : 1);
  x.k = x.k.to(at::kHalf).to(at::kFloat);
  return x;
}

TEST(OscarTni, TokensAreThePublishedSteps) {
  const auto x = uneven_tokens(32 * 2 + 7);
  const auto h64 = hadamard();
  for (const int64_t bits : {2, 4}) {
    const OpenCache cache("oscar_tni", small({{"bits", bits}, {"precision", "exact"}}), kInfo);
    cache->append(x.part(0, 40));
    for (int64_t t = 40; t < 71; ++t) cache->append(x.part(t, 1));
    ASSERT_EQ(cache->n_encoded_tokens(), 64);
    std::vector<double> norms;  // over both heads
    for (int64_t t = 0; t < 64; ++t) norms.push_back(x.k.select(1, t).to(at::kDouble).norm().item<double>());
    const auto scale = at::tensor(at::ArrayRef<double>(norms)).unsqueeze(1);
    const auto held = cache->dequantize();
    for (int64_t h = 0; h < 2; ++h) {
      const auto rotated = [&](const at::Tensor& all) {
        return at::matmul(all[h].narrow(0, 0, 64).to(at::kDouble), h64);
      };
      const auto k = at::matmul(slow_codes((rotated(x.k) / scale).t(), bits).t() * scale, h64);
      const auto v = at::matmul(slow_codes(rotated(x.v), bits), h64);
      EXPECT_LT(relative_error(held.k[h].narrow(0, 0, 64), k), 1e-5) << bits << " " << h;
      EXPECT_LT(relative_error(held.v[h].narrow(0, 0, 64), v), 1e-5) << bits << " " << h;
      EXPECT_TRUE(at::equal(held.k[h].narrow(0, 64, 7), x.k[h].narrow(0, 64, 7)));
      EXPECT_TRUE(at::equal(held.v[h].narrow(0, 64, 7), x.v[h].narrow(0, 64, 7)));
    }
  }
}

// What per-channel codes lose where norms differ within a group: kivi's keys are the same without rotation and norms.
TEST(OscarTni, SmallTokensBesideLargeOnesStayNear) {
  const auto x = uneven_tokens(64);
  const auto error = [&](const char* name, const nlohmann::json& options) {
    const OpenCache cache(name, options, kInfo);
    cache->append(x.part(0, 64));
    const auto squares = [](const at::Tensor& y) { return y.square().sum(at::IntArrayRef{0, 2}); };
    return (squares(cache->dequantize().k - x.k) / squares(x.k)).sqrt().mean().item<double>();
  };
  EXPECT_LT(error("oscar_tni", small()), error("kivi", {{"bits", 2}, {"group_size", 16}, {"recent", 0}}) / 3);
}

TEST(OscarTni, AttendsLikeFloat64OverWhatItDecodesTo) {
  expect_decoding_holds(Method("oscar_tni", small()), {2, 4, 2, D}, 1, 110);
  expect_decoding_holds(Method("oscar_tni", small({{"bits", 4}})), {2, 4, 2, 64}, 70, 60);
}

TEST(OscarTni, ZerosComeBackAsZeros) {
  const OpenCache cache("oscar_tni", small(), kInfo);
  auto k = at::zeros({2, 32, D}), v = at::zeros({2, 32, D});
  k.select(1, 5).fill_(1);
  cache.append(k, v);
  const auto held = cache->dequantize();
  EXPECT_EQ(cache->n_encoded_tokens(), 32);
  EXPECT_TRUE(held.k.isfinite().all().item<bool>());
  EXPECT_LT(held.k.narrow(1, 6, 26).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(held.v.abs().max().item<double>(), 0);
}

// At 2 bits, groups of 32, 8 heads of 128: 3 bits a number, and of K 16 more a token of 1,024.
TEST(OscarTni, BytesAreTheClosedFormAtEveryLength) {
  const LayerInfo info{.n_heads = 8, .n_kv_heads = 8, .head_dim = 128};
  const ModelShape shape{.n_layers = 1, .n_heads = 8, .n_kv_heads = 8, .head_dim = 128};
  const RandomTokens x(info, 300);
  const OpenCache cache("oscar_tni", {}, info);
  for (const int64_t n : {1, 127, 128, 129, 256, 300}) {
    cache->append(x.part(cache->length(), n - cache->length()));
    const int64_t encoded = n - n % 128;
    EXPECT_EQ(cache->n_encoded_tokens(), encoded);
    const int64_t expected = encoded * (2 * 1024 * 3 / 8 + 2) + (n - encoded) * 2 * 1024 * 2;
    EXPECT_EQ(cache->footprint().total_bytes(), expected) << n;
    EXPECT_NEAR(cache.compressor->paper_bytes(shape, n, 0), static_cast<double>(expected), 1e-6) << n;
  }
}

TEST(OscarTni, RefusesWhatHasNoHadamardMatrixOrNoWholeGroups) {
  EXPECT_THROW(plugin("oscar_tni").make({{"buffer", 100}}), Error);
  const auto compressor = plugin("oscar_tni").make(nlohmann::json::object());
  const auto model = [](int64_t d) { return ModelShape{.n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = d}; };
  EXPECT_THROW(compressor->check_model(model(96)), Error);
  EXPECT_THROW(compressor->check_model(model(16)), Error);
  EXPECT_NO_THROW(compressor->check_model(model(64)));
}

}  // namespace
}  // namespace kvc::conformance
