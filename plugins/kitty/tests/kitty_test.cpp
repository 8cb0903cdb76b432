// Kitty against loops in double: which channels have 4 bits, what is encoded when, bytes, and what 4 bits are for.
#include <numeric>

#include "method.h"
#include "support/normal.h"

namespace kvc::conformance {
namespace {

using nlohmann::json;
using test::normal;

// Channels of sizes of their own, as keys have; numbers that fp16 holds.
at::Tensor keys(at::IntArrayRef sizes, uint64_t seed) {
  const auto x = normal(sizes, seed) * normal({sizes[0], 1, sizes[2]}, seed + 1).exp();
  return x.to(at::kHalf).to(at::kFloat);
}

OpenCache made(const json& options, int64_t n_kv_heads, int64_t head_dim) {
  return {"kitty", options, {.n_heads = 2 * n_kv_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim}};
}

// Numbers of a group, coded with so many bits between their extremes.
std::vector<double> coded(const std::vector<double>& x, int bits) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const double step = (*high - *low) / ((1 << bits) - 1);
  std::vector<double> result;
  for (const double value : x) result.push_back(step == 0 ? *low : *low + step * std::nearbyint((value - *low) / step));
  return result;
}

// Of one head's page [G, D], by loops: the n channels of largest mean magnitude with 4 bits.
at::Tensor slow_page(const at::Tensor& page, int64_t n_promoted) {
  const int64_t d = page.size(1);
  std::vector<std::vector<double>> channels(static_cast<size_t>(d));
  std::vector<double> sizes;
  for (auto& channel : channels) {
    double sum = 0;
    for (int64_t t = 0; t < page.size(0); ++t) {
      channel.push_back(page[t][&channel - channels.data()].item<double>());
      sum += std::abs(channel.back());
    }
    sizes.push_back(sum);
  }
  std::vector<size_t> order(channels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  auto result = at::empty(page.sizes(), at::kDouble);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const auto values = coded(channels[order[rank]], static_cast<int64_t>(rank) < n_promoted ? 4 : 2);
    result.select(1, static_cast<int64_t>(order[rank])).copy_(at::tensor(at::ArrayRef<double>(values)));
  }
  return result;
}

TEST(Kitty, TheChannelsOfLargestMeanMagnitudeHaveFourBits) {
  constexpr int64_t H = 2, D = 20, G = 16, kSinks = 3;
  const auto k = keys({H, kSinks + 3 * G + 5, D}, 1);
  for (const auto& [ratio, n_promoted] : {std::pair{0.0, 0}, {0.1, 2}, {0.25, 5}, {0.33, 6}, {1.0, 20}}) {
    const auto cache = made({{"promote_ratio", ratio}, {"page", G}, {"sinks", kSinks}, {"precision", "exact"}}, H, D);
    cache.append(k, k);
    const auto held = cache->dequantize().k;
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t first = kSinks; first < kSinks + 3 * G; first += G) {
        const auto expected = slow_page(k[h].narrow(0, first, G), n_promoted);
        EXPECT_LT(relative_error(held[h].narrow(0, first, G), expected), 1e-6) << ratio << ", token " << first;
      }
    }
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, kSinks}, {kSinks + 3 * G, 5}}) {
      EXPECT_TRUE(at::equal(held.narrow(1, first, n), k.narrow(1, first, n)));
    }
  }
}

// Groups of 128 channels; of another width, all of a head.
TEST(Kitty, ValuesHaveTwoBitsATokenInGroupsOf128Channels) {
  for (const auto& [d, group] : {std::pair<int64_t, int64_t>{64, 64}, {128, 128}, {192, 192}, {256, 128}}) {
    const auto v = keys({1, 16 + 9, d}, 3);
    const auto cache = made({{"page", 16}, {"sinks", 0}, {"precision", "exact"}}, 1, d);
    cache.append(v, v);
    const auto held = cache->dequantize().v[0];
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t first = 0; first < d; first += group) {
        std::vector<double> x;
        for (int64_t j = 0; j < group; ++j) x.push_back(v[0][t][first + j].item<double>());
        const auto values = coded(x, 2);
        const auto expected = at::tensor(at::ArrayRef<double>(values));
        EXPECT_LT(relative_error(held[t].narrow(0, first, group), expected), 1e-6) << d << ", token " << t;
      }
    }
    EXPECT_TRUE(at::equal(held.narrow(0, 9, 16), v[0].narrow(0, 9, 16)));
  }
}

// After a prompt K waits until a page is full, and V's newest page is exact; in a step one token later, when the answer
// to the one before is given.
TEST(Kitty, PagesAndWindowsAreEncodedWhenTheyAreDue) {
  constexpr int64_t D = 8, G = 16, kSinks = 4;
  for (const int64_t n_prompt : {1, 4, 20, 21, 36, 60}) {
    const auto x = keys({1, n_prompt + 70, D}, 5);
    const auto cache = made({{"page", G}, {"sinks", kSinks}}, 1, D);
    for (int64_t n = n_prompt; n <= n_prompt + 70; ++n) {
      const int64_t from = cache->length();
      cache.append(x.narrow(1, from, n - from).contiguous(), x.narrow(1, from, n - from).contiguous());
      const int64_t due = std::max<int64_t>(0, n - kSinks - (n == n_prompt ? 0 : 1));
      const int64_t n_k = due / G * G, n_v = std::max<int64_t>(0, due - G);
      ASSERT_EQ(cache->n_encoded_tokens(), std::max(n_k, n_v)) << n_prompt << " and " << n;
      ASSERT_EQ(cache->n_encoded_numbers(), (n_k + n_v) * D) << n_prompt << " and " << n;
      const auto held = cache->dequantize();
      const auto same = [&](const at::Tensor& y, int64_t first) {
        return at::equal(y.narrow(1, first, n - first), x.narrow(1, first, n - first));
      };
      ASSERT_TRUE(at::equal(held.k.narrow(1, 0, std::min(n, kSinks)), x.narrow(1, 0, std::min(n, kSinks))));
      ASSERT_TRUE(same(held.k, std::min(n, kSinks + n_k)) && same(held.v, std::min(n, kSinks + n_v))) << n;
    }
  }
}

TEST(Kitty, DecodingAttendsToWhatIsHeld) {
  for (const double ratio : {0.0, 0.1, 0.25, 1.0}) {
    for (const int64_t d : {40, 64}) {
      SCOPED_TRACE(concat(ratio, " of ", d));
      expect_decoding_holds(Method("kitty", {{"promote_ratio", ratio}, {"page", 16}, {"sinks", 8}}),
                            {.n_layers = 2, .n_heads = 6, .n_kv_heads = 2, .head_dim = d}, 70, 60);
    }
  }
}

// Words of 32 bits; places of channels in bytes up to 256 of them.
TEST(Kitty, BytesAreTheClosedForm) {
  constexpr int64_t H = 3, kSinks = 32;
  struct Size {
    int64_t d, page, promoted, place, groups;
  };
  for (const auto& [d, G, P, place, groups] :
       {Size{64, 128, 16, 1, 1}, {128, 128, 32, 1, 1}, {40, 16, 10, 1, 1}, {384, 16, 96, 2, 3}}) {
    const auto cache = made({{"page", G}}, H, d);
    for (int64_t n = 1; n <= 420; n += n == 1 ? 199 : 1) {
      const auto x = keys({H, n - cache->length(), d}, static_cast<uint64_t>(n));
      cache.append(x, x);
      const int64_t due = std::max<int64_t>(0, n - kSinks - 1), n_k = due / G, n_v = std::max<int64_t>(0, due - G);
      const int64_t of_page = (d - P) * 4 * ((2 * G + 31) / 32) + P * 4 * ((4 * G + 31) / 32) + 4 * d + place * d;
      const int64_t of_token = groups * (4 * ((2 * d / groups + 31) / 32) + 4);
      const int64_t exact = 2 * d * (n - n_k * G) + 2 * d * (n - n_v);
      ASSERT_EQ(cache->footprint().total_bytes(), H * (n_k * of_page + n_v * of_token + exact)) << d << ", " << n;
    }
  }
}

// The kernels' pages at D = G = 128 with 32 channels of 4 bits: 2.8125 bits a number of K, 2.25 of V.
TEST(Kitty, PaperBytesAreThoseOfTheKernelsPages) {
  const ModelShape shape{.n_kv_heads = 8, .head_dim = 128};
  const Method method("kitty");
  const double of_page = 8 * 128 * 128 / 8, of_exact = 8 * 128 * 2;  // a bit of each number; a token's
  // Behind 32 sinks 391 tokens: three pages of K and 7 tokens, two of V, 7 and the newest 128.
  EXPECT_EQ(method.compressor().paper_bytes(shape, 416, 7),
            of_page * (3 * 2.8125 + 2 * 2.25) + of_exact * (32 + 7 + 32 + 7 + 128));
  EXPECT_EQ(method.compressor().paper_bytes(shape, 20, 5), of_exact * 2 * 25);
  EXPECT_EQ(method.compressor().bits(), 2.25);
}

// The method's reason: of keys with few large channels a tenth of the channels carries most of the error.
TEST(Kitty, FourBitsInATenthOfTheChannelsTakeMostOfTheError) {
  auto k = normal({2, 32 + 256, 128}, 7);
  for (const int64_t channel : {3, 40, 77, 101}) k.select(2, channel).mul_(12);
  const auto error = [&](double ratio) {
    const auto cache = made({{"promote_ratio", ratio}}, 2, 128);
    cache.append(k, k);
    return (cache->dequantize().k - k).square().sum().item<double>();
  };
  EXPECT_LT(error(0.1), error(0) / 4);
  EXPECT_LT(error(0.25), error(0.1));
}

}  // namespace
}  // namespace kvc::conformance
