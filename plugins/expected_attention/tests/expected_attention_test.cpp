#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <numeric>

#include "attention64.h"

namespace kvc::conformance {
namespace {

constexpr int64_t kHalf = 16;
const std::vector<float> kFrequencies = [] {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < kHalf; ++i) frequencies.push_back(std::pow(100.f, -static_cast<float>(i) / kHalf));
  return frequencies;
}();
LayerInfo shape(bool has_rope) {
  LayerInfo info{.n_heads = 4, .n_kv_heads = 2, .head_dim = 2 * kHalf};
  if (has_rope) info.rope_frequencies = kFrequencies;
  return info;
}

using Complex = std::complex<double>;
std::vector<Complex> pairs_of(const at::Tensor& x) {  // channels i and i + D/2 as one number
  std::vector<Complex> pairs;
  for (int64_t i = 0; i < kHalf; ++i) pairs.emplace_back(x[i].item<double>(), x[i + kHalf].item<double>());
  return pairs;
}
double dot(const std::vector<Complex>& a, const std::vector<Complex>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (std::conj(a[i]) * b[i]).real();
  return sum;
}

// RoPE as products with complex numbers: a query's weight on a key is e^z of a normal number z, whose mean and variance
// are counted over the prompt's queries, one by one.
std::vector<double> slow_scores(const RandomTokens& x, int64_t h, int64_t n, int64_t sinks, int64_t horizon,
                                bool rope) {
  const double scale = 1 / std::sqrt(2.0 * kHalf);
  std::vector<double> scores(static_cast<size_t>(n - sinks), 0);
  for (int64_t i = 2 * h; i < 2 * h + 2; ++i) {
    std::vector<std::vector<Complex>> ahead;  // each query as it is expected behind the prompt
    for (int64_t t = sinks; t < n; ++t) {
      auto q = pairs_of(x.q[i][t]);
      for (size_t j = 0; rope && j < q.size(); ++j) {
        Complex mean = 0;
        for (int64_t p = n; p < n + horizon; ++p) mean += std::polar(1.0, kFrequencies[j] * static_cast<double>(p));
        q[j] *= std::polar(1.0, -kFrequencies[j] * static_cast<double>(t)) * mean / static_cast<double>(horizon);
      }
      ahead.push_back(q);
    }
    std::vector<double> z;
    for (int64_t t = sinks; t < n; ++t) {
      const auto k = pairs_of(x.k[h][t]);
      double sum = 0, squares = 0;
      for (const auto& q : ahead) sum += dot(q, k), squares += dot(q, k) * dot(q, k);
      const double count = static_cast<double>(n - sinks), mean = sum / count;
      z.push_back(scale * mean + scale * scale / 2 * (squares / count - mean * mean));
    }
    double total = 0;
    for (const double each : z) total += std::exp(each);
    for (size_t t = 0; t < z.size(); ++t) scores[t] += std::exp(z[t]) / total / 2;
  }
  for (size_t t = 0; t < scores.size(); ++t) scores[t] *= x.v[h][sinks + static_cast<int64_t>(t)].norm().item<double>();
  return scores;
}

TEST(ExpectedAttention, KeepsWhatASlowReferenceKeepsAndDecodes) {
  for (const bool rope : {true, false}) {
    const auto info = shape(rope);
    const RandomTokens x(info, 70);
    const OpenCache cache("expected_attention", {{"keep", 0.5}, {"sinks", 3}, {"horizon", 20}}, info);
    cache->append(x.part(0, 48));
    std::vector<std::vector<int64_t>> kept;
    for (const int64_t h : {0, 1}) {
      const auto scores = slow_scores(x, h, 48, 3, 20, rope);
      std::vector<int64_t> order(45);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [&](int64_t a, int64_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
      std::vector<int64_t> list{0, 1, 2};
      for (size_t i = 0; i < 21; ++i) list.push_back(order[i] + 3);
      std::sort(list.begin(), list.end());
      kept.push_back(list);
    }
    ASSERT_EQ(positions_of(*cache.cache), kept) << rope;
    for (int64_t t = 48; t < 70; ++t) {
      cache->append(x.part(t, 1));
      for (auto& positions : kept) positions.push_back(t);
    }
    EXPECT_LT(attention_error(*cache.cache, x, 69, kept), 2e-6);
  }
}

// Queries that all ask for one direction, once RoPE is taken back, find the key that stands there.
TEST(ExpectedAttention, AKeyWhereQueriesWillLookStays) {
  const auto info = shape(false);
  RandomTokens x(info, 64);
  x.k.mul_(0.1), x.v.fill_(1);
  x.q.fill_(0), x.q.select(2, 5).fill_(4);
  x.k.select(1, 40).select(1, 5).fill_(6);
  const OpenCache cache("expected_attention", {{"keep", 0.1}, {"sinks", 0}}, info);
  cache->append(x.part(0, 64));
  const auto kept = positions_of(*cache.cache);
  ASSERT_EQ(kept[0].size(), 6u);
  for (const auto& list : kept) EXPECT_EQ(std::count(list.begin(), list.end(), 40), 1);
}

TEST(ExpectedAttention, SmallestPromptsAndWholePromptsWork) {
  const auto info = shape(true);
  const RandomTokens x(info, 9);
  for (const int64_t n : {1, 2, 4, 5, 8}) {
    for (const double keep : {0.01, 0.5, 1.0}) {
      const OpenCache cache("expected_attention", {{"keep", keep}}, info);
      cache->append(x.part(0, n));
      cache->append(x.part(n, 1));
      const auto held = std::clamp<int64_t>(std::llround(keep * static_cast<double>(n)), 1, n) + 1;
      EXPECT_EQ(cache->positions().size(1), held) << n << " " << keep;
      EXPECT_LT(attention_error(*cache.cache, x, n, positions_of(*cache.cache)), 2e-6);
    }
  }
}

TEST(ExpectedAttention, RefusesPromptsWithoutQueriesAndNothingToKeep) {
  const RandomTokens x(shape(false), 40);
  const OpenCache cache("expected_attention", {{"keep", 0.5}}, shape(false));
  auto tokens = x.part(0, 40);
  tokens.q = at::Tensor();
  EXPECT_THROW(cache->append(tokens), Error);
  EXPECT_THROW(Method("expected_attention", {{"keep", 0}}), Error);
}

}  // namespace
}  // namespace kvc::conformance
