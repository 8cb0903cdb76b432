#include "kvc/quant/requantized_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace kvc {
namespace {

constexpr int64_t H = 2, D = 32;

at::Tensor tokens(int64_t n, uint64_t seed) {
  at::manual_seed(seed);
  return at::randn({H, n, D}) * at::randn({H, 1, D}).exp() + at::randn({H, 1, D});
}

// The group of entry (h, t, j), written down entry by entry.
int64_t group_of(GroupOrder order, int64_t h, int64_t t, int64_t j, int64_t n, int64_t g) {
  const int64_t flat = (h * n + t) * D + j;
  if (order == GroupOrder::flat) return flat / g;
  if (order == GroupOrder::rows) return (h * n + t) / g * D + j;
  return flat % ((H * n * D + g - 1) / g);
}

// Min-max of each group in float64.
at::Tensor rounded(const at::Tensor& x, GroupOrder order, int64_t g, int64_t bits) {
  struct Range {
    double low = INFINITY, high = -INFINITY;
  };
  std::map<int64_t, Range> ranges;
  const int64_t n = x.size(1);
  auto y = x.to(at::kDouble).contiguous();
  double* entries = y.data_ptr<double>();
  const auto each = [&](auto f) {
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < n; ++t)
        for (int64_t j = 0; j < D; ++j) f(entries[(h * n + t) * D + j], ranges[group_of(order, h, t, j, n, g)]);
  };
  each([](double& e, Range& r) { r = {std::min(r.low, e), std::max(r.high, e)}; });
  each([&](double& e, Range& r) {
    const double step = (r.high - r.low) / (std::exp2(bits) - 1);
    if (step > 0) e = r.low + step * std::nearbyint((e - r.low) / step);
  });
  return y;
}

RequantizedFormat format_of(GroupOrder k, GroupOrder v, int64_t g, int64_t window, int64_t bits) {
  const GroupFormat groups{.bits = bits, .precision = Precision::exact};
  return {.k = k,
          .v = v,
          .group_size = g,
          .window = window,
          .precision = Precision::exact,
          .encode = [groups](const at::Tensor& x) { return quantize_groups(x, groups); }};
}

TEST(ToGroups, PutsEachEntryIntoItsGroupAndBack) {
  for (const auto order : {GroupOrder::flat, GroupOrder::rows, GroupOrder::strided}) {
    for (const int64_t n : {1, 7, 32, 65}) {
      for (const int64_t g : {16, 32, 64}) {
        const auto x = at::arange(H * n * D, at::kFloat).view({H, n, D});
        const auto groups = to_groups(x, order, g);
        EXPECT_TRUE(at::equal(from_groups(groups, order, x.sizes()), x));
        for (int64_t i = 0; i < groups.size(0); ++i) {
          for (int64_t e = 0; e < g; ++e) {
            const auto at = groups[i][e].item<int64_t>();
            ASSERT_EQ(group_of(order, at / (n * D), at / D % n, at % D, n, g), i) << n << " tokens, group " << g;
          }
        }
      }
    }
  }
}

// Hugging Face's update: the prompt is encoded at once; a step sees codes, window and itself; when the window, with the
// step, is full (and the window was not empty), all that the step saw is encoded.
TEST(RequantizedCache, FollowsTheUpdateOf300Steps) {
  const std::pair<GroupOrder, GroupOrder> orders[] = {{GroupOrder::flat, GroupOrder::rows},
                                                      {GroupOrder::strided, GroupOrder::flat}};
  for (const auto& [order_k, order_v] : orders) {
    for (const int64_t window : {1, 60, 128}) {
      const auto format = format_of(order_k, order_v, 32, window, 4);
      RequantizedCache cache({.n_heads = H, .n_kv_heads = H, .head_dim = D}, format);
      const auto k = tokens(321, 1), v = tokens(321, 2);
      cache.append({.q = {}, .k = k.narrow(1, 0, 21), .v = v.narrow(1, 0, 21)});
      auto k_old = rounded(k.narrow(1, 0, 21), order_k, 32, 4), v_old = rounded(v.narrow(1, 0, 21), order_v, 32, 4);
      int64_t n_window = 0;
      for (int64_t t = 21; t < 321; ++t) {
        cache.append({.q = {}, .k = k.narrow(1, t, 1), .v = v.narrow(1, t, 1), .first_position = t});
        const auto k_all = at::cat({k_old, k.narrow(1, t - n_window, n_window + 1).to(at::kDouble)}, 1);
        const auto v_all = at::cat({v_old, v.narrow(1, t - n_window, n_window + 1).to(at::kDouble)}, 1);
        const bool full = n_window > 0 && n_window + 1 >= window;
        if (t % 19 == 0 || full) {
          const auto kv = cache.dequantize();
          ASSERT_LE(((kv.k - k_all).abs() > 1e-4).sum().item<int64_t>(), 40) << t;  // halves may fall either way
          ASSERT_LE(((kv.v - v_all).abs() > 1e-4).sum().item<int64_t>(), 40) << t;
          ASSERT_EQ(cache.n_encoded_tokens(), t - n_window);
        }
        if (full) {
          // The next encoding starts from what is held, so that a half that fell the other way is not carried on.
          const auto kv = cache.dequantize();
          k_old = rounded(kv.k, order_k, 32, 4), v_old = rounded(kv.v, order_v, 32, 4);
        }
        n_window = full ? 0 : n_window + 1;
      }
    }
  }
}

// Where groups stay what they were, levels are hit exactly: the second encoding adds no error.
// One head, as many groups as tokens, as large as a token: the codes look like tokens' and are not.
TEST(RequantizedCache, StridedGroupsOfATokensSizeAreNoTokens) {
  const auto format = format_of(GroupOrder::strided, GroupOrder::rows, 64, 32, 8);
  RequantizedCache cache({.n_heads = 1, .n_kv_heads = 1, .head_dim = 64}, format);
  at::manual_seed(3);
  const auto k = at::randn({1, 128, 64}), v = at::randn({1, 128, 64}), q = at::randn({1, 1, 64});
  cache.append({.q = {}, .k = k, .v = v});
  EXPECT_LT((cache.dequantize().k - k).abs().max().item<double>(), 0.05);
  const auto exact = at::matmul(at::matmul(q, k.transpose(1, 2)).mul(0.125).softmax(2), v);
  EXPECT_LT((cache.attend(q, 0.125) - exact).abs().max().item<double>(), 0.05);
}

TEST(RequantizedCache, EncodingAgainKeepsGroupsThatLieInAToken) {
  const auto format = format_of(GroupOrder::flat, GroupOrder::flat, 32, 2, 2);
  RequantizedCache cache({.n_heads = H, .n_kv_heads = H, .head_dim = D}, format);
  const auto x = tokens(60, 3);
  cache.append({.q = {}, .k = x.narrow(1, 0, 40), .v = x.narrow(1, 0, 40)});
  const auto once = cache.dequantize().k;
  for (int64_t t = 40; t < 60; ++t)
    cache.append({.q = {}, .k = x.narrow(1, t, 1), .v = x.narrow(1, t, 1), .first_position = t});
  EXPECT_GE(cache.n_encoded_tokens(), 56);
  EXPECT_LE((cache.dequantize().k.narrow(1, 0, 40) - once).abs().max().item<double>(), 1e-5);
}

TEST(RequantizedCache, EncodingAgainCostsErrorWhereGroupsMove) {
  const auto format = format_of(GroupOrder::strided, GroupOrder::rows, 32, 2, 2);
  RequantizedCache cache({.n_heads = H, .n_kv_heads = H, .head_dim = D}, format);
  const auto x = tokens(60, 3);
  cache.append({.q = {}, .k = x.narrow(1, 0, 40), .v = x.narrow(1, 0, 40)});
  const auto error = [&] { return (cache.dequantize().k.narrow(1, 0, 40) - x.narrow(1, 0, 40)).norm().item<double>(); };
  const double once = error();
  for (int64_t t = 40; t < 60; ++t)
    cache.append({.q = {}, .k = x.narrow(1, t, 1), .v = x.narrow(1, t, 1), .first_position = t});
  EXPECT_GT(error(), 1.05 * once);
}

}  // namespace
}  // namespace kvc
