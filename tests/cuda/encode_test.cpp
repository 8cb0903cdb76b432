// Kernels that quantize, on the CPU thread by thread: the same bits as the CPU's own quantizer.
#include "cuda/encode.cuh"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "cuda/schedules.h"
#include "kernels/quantize_groups.h"

namespace kvc::KVC_DEVICE {
namespace {

using cuda_cache::Format;

// What the CPU makes of one group: codes, then scale and zero as bits.
struct Group {
  std::vector<uint8_t> codes;
  uint16_t scale = 0, zero = 0;
};
Group quantize(const std::vector<float>& x, int bits, bool symmetric) {
  Group group{.codes = std::vector<uint8_t>(x.size())};
  const kernels::QuantizeGroups job{.x = x.data(),
                                    .left_out = nullptr,
                                    .n_groups = 1,
                                    .group_size = static_cast<int64_t>(x.size()),
                                    .bits = bits,
                                    .symmetric = symmetric,
                                    .scale = &group.scale,
                                    .zero = &group.zero,
                                    .half = true,
                                    .codes = group.codes.data()};
  EXPECT_TRUE(kernels::quantize_groups(job));
  return group;
}

// Two rows of `n` tokens behind `coded` tokens that are there; every code and side against the CPU's.
template <class F, int kDim>
void expect_same_bits(int group_size, int coded, int n, Order order) {
  constexpr int kShift = 6, kPageTokens = 64, kRows = 2;
  constexpr bool kByToken = F::kAxis == Axis::channels;
  const WithOptions scheduled({.order = order, .seed = 7});
  const int pages_a_row = (coded + n + kPageTokens - 1) / kPageTokens;
  const auto sizes = cuda_cache::sizes_of<F>(kDim, group_size, kPageTokens);
  const auto n_pages = static_cast<size_t>(kRows * pages_a_row);
  std::mt19937 random(static_cast<unsigned>(n + kDim));
  std::vector<int> pages(n_pages);
  std::iota(pages.rbegin(), pages.rend(), 0);
  std::vector<__half> from(static_cast<size_t>(kRows * n * kDim));
  std::normal_distribution<float> normal;
  for (auto& x : from) x = __half(normal(random));
  std::fill_n(from.begin(), group_size, __half(0.5f));  // a constant group of axis channels
  const std::vector<int> n_coded(kRows, coded);
  std::vector<unsigned> rows(n_pages * static_cast<size_t>(sizes.page_row_bytes) / 4, 0xdeadbeef);
  std::vector<__half> sides(n_pages * static_cast<size_t>(sizes.page_side_bytes) / 2);
  const auto all = [](auto& x) { return checked(x.data(), x.size()); };
  const EncodeArguments<__half> arguments{all(std::as_const(from)),
                                          all(n_coded),
                                          all(std::as_const(pages)),
                                          all(rows),
                                          all(sides),
                                          n,
                                          pages_a_row,
                                          kShift,
                                          group_size};
  const int run = kByToken ? 32 : group_size;
  KVC_LAUNCH((encode_pages<__half, F, kDim>), dim3(static_cast<unsigned>((n + run - 1) / run), kRows), dim3(kThreads),
             0, nullptr, arguments);

  const auto number = [&](int row, int t, int c) {
    return static_cast<float>(from[static_cast<size_t>((row * n + t) * kDim + c)]);
  };
  const auto expect_group = [&](int row, int t, int c, int step_t, int step_c) {
    std::vector<float> x;
    for (int i = 0; i < group_size; ++i) x.push_back(number(row, t + i * step_t, c + i * step_c));
    const auto group = quantize(x, F::kBits, F::kSymmetric);
    const auto page = static_cast<size_t>(pages[static_cast<size_t>(row * pages_a_row + (coded + t) / kPageTokens)]);
    const int inside = (coded + t) % kPageTokens;
    const size_t side = kByToken ? (page * kPageTokens + inside) * (kDim / group_size) + c / group_size
                                 : (page * (kPageTokens / group_size) + inside / group_size) * kDim + c;
    if (F::kSymmetric) {
      ASSERT_EQ(__half_as_ushort(sides[side]), group.scale);
    } else {
      ASSERT_EQ(__half_as_ushort(sides[2 * side]), group.scale);
      ASSERT_EQ(__half_as_ushort(sides[2 * side + 1]), group.zero);
    }
    for (int i = 0; i < group_size; ++i) {
      const int channel = c + i * step_c;
      const unsigned word = rows[(page * kPageTokens + inside + i * step_t) * (kDim / F::kCodes) + channel / F::kCodes];
      ASSERT_EQ(word >> channel % F::kCodes * F::kBits & ((1u << F::kBits) - 1), group.codes[static_cast<size_t>(i)])
          << "token " << t + i * step_t << ", channel " << channel;
    }
  };
  for (int row = 0; row < kRows; ++row) {
    for (int t = 0; t < n; t += kByToken ? 1 : group_size) {
      for (int c = 0; c < kDim; c += kByToken ? group_size : 1) expect_group(row, t, c, !kByToken, kByToken);
    }
  }
}

TEST(EncodePages, GroupsOfATokenHaveTheBitsOfTheCpus) {
  expect_same_bits<Format<4>, 128>(32, 0, 40, Order::forward);
  expect_same_bits<Format<2>, 80>(16, 61, 7, Order::reverse);  // over a page's end
  expect_same_bits<Format<8>, 64>(64, 5, 33, Order::random);
  expect_same_bits<Format<4, Axis::channels, true>, 96>(32, 0, 40, Order::warp_ahead);
}

TEST(EncodePages, GroupsOfAChannelHaveTheBitsOfTheCpus) {
  expect_same_bits<Format<2, Axis::tokens>, 128>(32, 32, 64, Order::forward);
  expect_same_bits<Format<4, Axis::tokens>, 64>(16, 0, 48, Order::random);
  expect_same_bits<Format<8, Axis::tokens, true>, 80>(64, 64, 64, Order::reverse);
}

}  // namespace
}  // namespace kvc::KVC_DEVICE
