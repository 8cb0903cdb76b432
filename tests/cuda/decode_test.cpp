// Decode kernels on the CPU, thread by thread, against fp64 attention to the numbers that the codes stand for.
#include "cuda/decode_fixture.h"
#include "cuda/decode_mma.cuh"
#include "cuda/decode_simt.cuh"
#include "cuda/schedules.h"

namespace kvc::KVC_DEVICE {
namespace {

using cuda_cache::Format;
using K16 = Format<16>;
template <int bits>
using ByToken = Format<bits>;
template <int bits>
using ByChannel = Format<bits, Axis::tokens>;
template <int bits>
using Symmetric = Format<bits, Axis::channels, true>;

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random, Order::warp_ahead};

// `n` drawn shapes, the orders of threads in turn.
template <class T, class K, class V, int kDim>
void expect_equal(typename Case<T, K, V, kDim>::Kernel kernel, int most_heads, double bound, int n, int group_size = 32,
                  int most = 200) {
  std::mt19937 random(most_heads * 1000 + kDim);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const WithOptions scheduled({.order = kOrders[i % 4], .seed = static_cast<uint64_t>(i)});
    const int n_heads = 1 + static_cast<int>(random() % static_cast<unsigned>(most_heads));
    const auto shape = draw_shape(random, n_heads, group_size, most);
    const auto attended = Case<T, K, V, kDim>::run(kernel, shape, static_cast<unsigned>(i));
    worst = std::max(worst, attended.error());
    ASSERT_LE(attended.error(), bound) << "shape " << i << ": " << n_heads << " heads, coded "
                                       << testing::PrintToString(shape.n_coded) << ", window "
                                       << testing::PrintToString(shape.n_window);
  }
  testing::Test::RecordProperty("worst", std::to_string(worst));
}

// The output is rounded to 16 bits, which is an error of up to 2^-24 (fp16) or 2^-18 (bf16) times a third.
constexpr double kExact = 1e-6, kBf16 = 4e-6;

TEST(DecodeSimt, SixteenBitsEqualTheReference) {
  expect_equal<__half, K16, K16, 128>(decode_simt<__half, K16, K16, 1, 128>, 1, kExact, 8);
  expect_equal<__half, K16, K16, 80>(decode_simt<__half, K16, K16, 8, 80>, 8, kExact, 8);
  expect_equal<__half, K16, K16, 256>(decode_simt<__half, K16, K16, 4, 256>, 4, kExact, 8);
  expect_equal<__nv_bfloat16, K16, K16, 64>(decode_simt<__nv_bfloat16, K16, K16, 4, 64>, 4, kBf16, 8);
}

template <int kDim>
void expect_codes_equal(int group_size) {
  using K4 = ByToken<4>;
  using K2 = ByToken<2>;
  expect_equal<__half, K4, K4, kDim>(decode_simt<__half, K4, K4, 4, kDim>, 4, kExact, 8, group_size);
  expect_equal<__half, K2, K2, kDim>(decode_simt<__half, K2, K2, 4, kDim>, 4, kExact, 8, group_size);
  expect_equal<__half, ByToken<8>, K4, kDim>(decode_simt<__half, ByToken<8>, K4, 1, kDim>, 1, kExact, 8, group_size);
}

TEST(DecodeSimt, GroupsOfATokenEqualTheReference) {
  expect_codes_equal<64>(64);
  expect_codes_equal<80>(16);
  expect_codes_equal<96>(32);
  expect_codes_equal<128>(32);
  expect_codes_equal<256>(64);
}

TEST(DecodeSimt, GroupsOfAChannelEqualTheReference) {
  using V4 = ByToken<4>;
  using V2 = ByToken<2>;
  expect_equal<__half, ByChannel<4>, V4, 128>(decode_simt<__half, ByChannel<4>, V4, 4, 128>, 4, kExact, 12);
  expect_equal<__half, ByChannel<2>, V2, 64>(decode_simt<__half, ByChannel<2>, V2, 8, 64>, 8, kExact, 12);
  expect_equal<__half, ByChannel<4>, ByChannel<8>, 96>(decode_simt<__half, ByChannel<4>, ByChannel<8>, 4, 96>, 4,
                                                       kExact, 12);
}

TEST(DecodeSimt, SymmetricCodesEqualTheReference) {
  using S4 = Symmetric<4>;
  using S8 = Symmetric<8>;
  expect_equal<__half, S4, S4, 128>(decode_simt<__half, S4, S4, 4, 128>, 4, kExact, 8);
  expect_equal<__nv_bfloat16, S8, S8, 64>(decode_simt<__nv_bfloat16, S8, S8, 4, 64>, 4, kBf16, 8);
}

// K, V and weights are rounded to fp16 before they are multiplied.
constexpr double kRounded = 2e-6, kRoundedBf16 = 4e-5;
// 8 bits reach magnitudes of 70 here, and scores are off by as much more.
constexpr double kRoundedLarge = 1e-5;

TEST(DecodeMma, SixteenBitsEqualTheReference) {
  expect_equal<__half, K16, K16, 128>(decode_mma<__half, K16, K16, 8, 128>, 8, kRounded, 12);
  expect_equal<__half, K16, K16, 64>(decode_mma<__half, K16, K16, 16, 64>, 16, kRounded, 12);
  expect_equal<__nv_bfloat16, K16, K16, 128>(decode_mma<__nv_bfloat16, K16, K16, 8, 128>, 8, kRoundedBf16, 12);
}

template <int bits>
void expect_mma_codes_equal() {
  using G = ByToken<bits>;
  using S = Symmetric<bits>;
  expect_equal<__half, G, G, 128>(decode_mma<__half, G, G, 8, 128>, 8, kRounded, 12);
  if constexpr (bits > 2) {  // eight lanes share V's words of a token: with 2 bits there are four
    expect_equal<__half, G, G, 64>(decode_mma<__half, G, G, 16, 64>, 16, kRounded, 12, 64);
  }
  expect_equal<__half, S, S, 128>(decode_mma<__half, S, S, 8, 128>, 8, kRounded, 12, 64);
  expect_equal<__half, ByChannel<bits>, G, 128>(decode_mma<__half, ByChannel<bits>, G, 8, 128>, 8, kRounded, 12);
}

TEST(DecodeMma, CodesOf2BitsEqualTheReference) { expect_mma_codes_equal<2>(); }
TEST(DecodeMma, CodesOf4BitsEqualTheReference) { expect_mma_codes_equal<4>(); }
TEST(DecodeMma, CodesOf8BitsEqualTheReference) { expect_mma_codes_equal<8>(); }

TEST(DecodeMma, KAndVMayDiffer) {
  expect_equal<__half, ByToken<8>, ByToken<4>, 128>(decode_mma<__half, ByToken<8>, ByToken<4>, 8, 128>, 8,
                                                    kRoundedLarge, 16);
  expect_equal<__half, K16, ByToken<2>, 128>(decode_mma<__half, K16, ByToken<2>, 8, 128>, 8, kRounded, 16);
}

TEST(Decode, ManyTokensInManySplits) {
  using K4 = ByToken<4>;
  Shape shape{.n_heads = 4, .n_coded = {2000, 1, 1337}, .n_window = {128, 0, 77}};
  const auto simt = Case<__half, K4, K4, 128>::run(decode_simt<__half, K4, K4, 4, 128>, shape, 3);
  EXPECT_LE(simt.error(), kExact);
  const auto mma = Case<__half, K4, K4, 128>::run(decode_mma<__half, K4, K4, 8, 128>, shape, 3);
  EXPECT_LE(mma.error(), kRounded);
}

TEST(Decode, ARowWithoutTokensGivesZeros) {
  const Shape shape{.n_heads = 2, .n_coded = {0, 20}, .n_window = {0, 0}};
  const auto attended = Case<__half, K16, K16, 64>::run(decode_mma<__half, K16, K16, 8, 64>, shape, 1);
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(attended.out[i], 0.0f);
  EXPECT_LE(attended.error(), kRounded);
}

// The same bits whatever the order in which threads run.
TEST(Decode, OrderOfThreadsChangesNothing) {
  using K4 = ByToken<4>;
  const Shape shape{.n_heads = 4, .n_coded = {150, 64}, .n_window = {17, 0}};
  std::vector<std::vector<float>> outs;
  for (const Order order : kOrders) {
    const WithOptions scheduled({.order = order});
    outs.push_back(Case<__half, K4, K4, 128>::run(decode_mma<__half, K4, K4, 8, 128>, shape, 5).out);
  }
  for (const auto& out : outs) EXPECT_EQ(out, outs[0]);
}

TEST(DecodePlan, SplitsCoverAllTilesAndNoneIsEmpty) {
  for (int tiles = 0; tiles < 70; ++tiles) {
    for (int rows = 1; rows < 9; rows += 3) {
      for (int wanted = 0; wanted < 40; wanted += 3) {
        const auto plan = cuda_cache::plan_splits(rows, tiles, wanted);
        EXPECT_GE(plan.n_splits * plan.tiles_a_split, tiles);
        EXPECT_LT((plan.n_splits - 1) * plan.tiles_a_split, std::max(tiles, 1));
      }
    }
  }
}

}  // namespace
}  // namespace kvc::KVC_DEVICE
