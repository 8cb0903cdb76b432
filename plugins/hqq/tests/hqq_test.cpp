// hqq's rule. The public code's records are in the census; what encoding again does is tested
// with the primitive.
#include "method.h"

namespace kvc::conformance {
namespace {

// The zero point only moves to make the mean error fall; the scale, and so the bytes, stay.
TEST(HqqRule, TheMovedZeroPointLowersTheError) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  const auto input = ordinary_input(model, 256);
  for (const int64_t axis : {0, 1}) {
    double last = INFINITY;
    for (const int64_t iterations : {0, 5, 20}) {
      const Method hqq("hqq", {{"bits", 2}, {"axis_k", axis}, {"iterations", iterations}});
      const auto cache = hqq.cache(model, input, 256);
      const double error = (cache->dequantize().k - input.k).abs().mean().item<double>();
      EXPECT_LT(error, last) << "axis " << axis << ", " << iterations << " iterations";
      last = error;
    }
  }
}

// Groups narrower than 1e-4 have scale 1 and come back as their minimum; the scale never exceeds 2e4.
TEST(HqqRule, NarrowGroupsAreTheirMinimum) {
  const OpenCache cache("hqq", {{"iterations", 0}, {"axis_k", 1}, {"axis_v", 1}, {"precision", "exact"}}, {});
  const auto x = (at::arange(64, at::kFloat) * 1e-6f + 2).view({1, 1, 64});
  const auto y = (at::arange(64, at::kFloat) * 2e-6f).view({1, 1, 64});  // 15 / 1.26e-4 is clamped to 2e4
  cache.append(x, y);
  const auto kv = cache->dequantize();
  EXPECT_TRUE(at::equal(kv.k, at::full_like(x, 2)));
  EXPECT_NEAR(kv.v.max().item<double>(), 3 / 2e4, 1e-9);  // 1.26e-4 * 2e4 = 2.52 goes to 3
}

TEST(HqqBytes, OfItsOwnCountAreMeasuredWhereGroupsComeOutEven) {
  const ModelShape model{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  for (const int64_t bits : {2, 4, 8}) {
    const Method hqq("hqq", {{"bits", bits}});
    EXPECT_EQ(static_cast<double>(hqq.cache(model, ordinary_input(model, 640), 640)->footprint().total_bytes()),
              hqq.compressor().paper_bytes(model, 640, 0));
  }
}

}  // namespace
}  // namespace kvc::conformance
