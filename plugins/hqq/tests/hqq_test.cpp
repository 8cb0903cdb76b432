// hqq's rule and its pencil formula. The public code's records are in the census; what encoding again does is tested
// with the primitive.
#include <gtest/gtest.h>

#include "compressors/plugin_library.h"
#include "inputs.h"

namespace kvc::conformance {
namespace {

std::unique_ptr<Compressor> hqq_with(const nlohmann::json& options) {
  static const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / "hqq.so");
  return library.make(options);
}

int64_t bytes_of(const Compressor& compressor, const ModelShape& model, int64_t n_prompt, int64_t n_new) {
  const auto cache =
      compressor.make_cache({.n_heads = model.n_heads, .n_kv_heads = model.n_kv_heads, .head_dim = model.head_dim});
  const auto input = ordinary_input(model, n_prompt + n_new);
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < n_prompt + n_new; ++t) cache->append(tokens_of(input, t, 1));
  return cache->footprint().total_bytes();
}

// The zero point only moves to make the mean error fall; the scale, and so the bytes, stay.
TEST(HqqRule, TheMovedZeroPointLowersTheError) {
  const ModelShape model{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  const auto input = ordinary_input(model, 256);
  for (const int64_t axis : {0, 1}) {
    double last = INFINITY;
    for (const int64_t iterations : {0, 5, 20}) {
      const auto compressor = hqq_with({{"bits", 2}, {"axis_k", axis}, {"iterations", iterations}});
      const auto cache = compressor->make_cache({.n_heads = 2, .n_kv_heads = 2, .head_dim = 64});
      cache->append(tokens_of(input, 0, 256));
      const double error = (cache->dequantize().k - input.k).abs().mean().item<double>();
      EXPECT_LT(error, last) << "axis " << axis << ", " << iterations << " iterations";
      last = error;
    }
  }
}

// Groups narrower than 1e-4 have scale 1 and come back as their minimum; the scale never exceeds 2e4.
TEST(HqqRule, NarrowGroupsAreTheirMinimum) {
  const auto compressor = hqq_with({{"iterations", 0}, {"axis_k", 1}, {"axis_v", 1}, {"precision", "exact"}});
  const auto cache = compressor->make_cache({.n_heads = 1, .n_kv_heads = 1, .head_dim = 64});
  const auto x = (at::arange(64, at::kFloat) * 1e-6f + 2).view({1, 1, 64});
  const auto y = (at::arange(64, at::kFloat) * 2e-6f).view({1, 1, 64});  // 15 / 1.26e-4 is clamped to 2e4
  cache->append({.q = {}, .k = x, .v = y});
  const auto kv = cache->dequantize();
  EXPECT_TRUE(at::equal(kv.k, at::full_like(x, 2)));
  EXPECT_NEAR(kv.v.max().item<double>(), 3 / 2e4, 1e-9);  // 1.26e-4 * 2e4 = 2.52 goes to 3
}

int64_t up(int64_t n, int64_t of) { return (n + of - 1) / of; }

// The window of 32 is full with its 32nd token, and encoded by the next append.
TEST(HqqBytes, FollowThePencilOnAndOffTheBorders) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 48};
  for (const int64_t bits : {2, 4}) {
    for (const int64_t n_prompt : {1, 63, 64, 129}) {
      for (const int64_t n_new : {0, 1, 31, 32, 33, 64, 65}) {
        const int64_t n_recent = n_new == 0 ? 0 : (n_new - 1) % 32 + 1, n = n_prompt + n_new - n_recent;
        const int64_t group = 64 * bits / 8 + 4;
        const int64_t k_groups = up(2 * n * 48, 64), v_groups = k_groups;
        EXPECT_EQ(bytes_of(*hqq_with({{"bits", bits}, {"residual", 32}, {"axis_v", 1}}), model, n_prompt, n_new),
                  (k_groups + v_groups) * group + 2 * 2 * 2 * 48 * n_recent)
            << bits << " bits, " << n_prompt << " + " << n_new;
      }
    }
  }
}

TEST(HqqBytes, OfItsOwnCountAreMeasuredWhereGroupsComeOutEven) {
  const ModelShape model{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  for (const int64_t bits : {2, 4, 8}) {
    const auto compressor = hqq_with({{"bits", bits}});
    EXPECT_EQ(static_cast<double>(bytes_of(*compressor, model, 640, 0)), compressor->paper_bytes(model, 640, 0));
  }
}

}  // namespace
}  // namespace kvc::conformance
