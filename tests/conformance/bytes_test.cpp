// Bytes with a pencil: what each plugin holds, written down independently, on and off every border of its flushes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compressors/plugin_library.h"
#include "inputs.h"

namespace kvc::conformance {
namespace {

constexpr int64_t H = 2, D = 64;
const ModelShape kModel{.n_layers = 1, .n_heads = 4, .n_kv_heads = H, .head_dim = D};

int64_t words(int64_t n, int64_t bits) { return 4 * ((n * bits + 31) / 32); }

// Bytes held after a prompt of n_prompt tokens and n_new single ones.
int64_t held(const char* name, const nlohmann::json& options, int64_t n_prompt, int64_t n_new) {
  const PluginLibrary plugin(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (std::string(name) + ".so"));
  const auto compressor = plugin.make(options);
  const auto cache = compressor->make_cache({.n_heads = 4, .n_kv_heads = H, .head_dim = D});
  const auto input = ordinary_input(kModel, n_prompt + n_new);
  cache->append(tokens_of(input, 0, n_prompt));
  for (int64_t t = n_prompt; t < n_prompt + n_new; ++t) cache->append(tokens_of(input, t, 1));
  return cache->footprint().total_bytes();
}

// What a decode step leaves to the next append is still in the window: a full buffer, one token more than V's window.
int64_t chunked(int64_t n_waiting, int64_t unit, bool decoding) {
  return decoding ? (n_waiting - 1) / unit * unit : n_waiting / unit * unit;
}

TEST(Bytes, OfFull) { EXPECT_EQ(held("full", {}, 300, 5), 2 * 2 * H * D * 305); }

TEST(Bytes, OfTokenGroup) {
  for (const int64_t bits : {2, 4, 8}) {
    for (const int64_t g : {16, 64}) {
      const int64_t token = H * (words(D, bits) + D / g * 4);
      EXPECT_EQ(held("token_group", {{"bits", bits}, {"group_size", g}}, 63, 70), 2 * 133 * token);
    }
  }
}

TEST(Bytes, OfKiviOnAndOffItsBorders) {
  for (const int64_t recent : {64, 0}) {
    for (const int64_t n_prompt : {1, 63, 64, 65, 128}) {
      for (const int64_t n_new : {0, 1, 63, 64, 65, 128}) {
        const int64_t n = n_prompt + n_new, unit = recent > 0 ? recent : 32;
        const int64_t n_k0 = chunked(n_prompt, unit, false), n_v0 = std::max<int64_t>(0, n_prompt - recent);
        const int64_t n_k = n_new == 0 ? n_k0 : n_k0 + chunked(n - n_k0, unit, true);
        const int64_t n_v = n_new == 0 ? n_v0 : std::max<int64_t>(n_v0, n - recent - 1);
        const double formula = H * D * ((n_k + n_v) * (2.0 / 8 + 4.0 / 32) + 2.0 * (2 * n - n_k - n_v));
        EXPECT_EQ(
            static_cast<double>(held("kivi", {{"bits", 2}, {"group_size", 32}, {"recent", recent}}, n_prompt, n_new)),
            formula)
            << "recent " << recent << ", " << n_prompt << " + " << n_new;
      }
    }
  }
}

// One chunk of n tokens of K and V over the kcvt quantizer.
int64_t kcvt_chunk(int64_t n, int64_t bits) { return H * D * (words(n, bits) + 4) + n * (H * words(D, bits) + 4); }

TEST(Bytes, OfKcvtOnAndOffItsBorders) {
  for (const int64_t n_new : {0, 1, 19, 20, 21, 40, 41}) {
    const int64_t n_chunks = n_new == 0 ? 0 : (n_new - 1) / 20;
    EXPECT_EQ(held("kcvt", {{"bits", 4}}, 37, n_new),
              kcvt_chunk(37, 4) + n_chunks * kcvt_chunk(20, 4) + 4 * H * D * (n_new - 20 * n_chunks))
        << n_new << " new tokens";
  }
}

int64_t low_rank(int64_t n, int64_t rank) { return 2 * 2 * H * std::min({rank, n, D}) * (n + D); }

int64_t outliers(int64_t n, double s) {
  const auto side = [s](int64_t len) {
    return std::min<int64_t>(static_cast<int64_t>(std::nearbyint(s * static_cast<double>(len) / 2)), len / 2);
  };
  const auto entry = [](int64_t len) { return 2 + (len <= 256 ? 1 : 2); };
  return 2 * side(n) * H * D * entry(n) + 2 * side(H * D) * n * entry(H * D);
}

TEST(Bytes, OfGearOverKcvtOnAndOffItsBorders) {
  for (const int64_t n_new : {0, 1, 20, 21, 41}) {
    const int64_t n_chunks = n_new == 0 ? 0 : (n_new - 1) / 20;
    const int64_t prompt = kcvt_chunk(300, 4) + low_rank(300, 4) + outliers(300, 0.05);
    const int64_t chunk = kcvt_chunk(20, 4) + low_rank(20, 2) + outliers(20, 0.05);
    EXPECT_EQ(held("gear", {{"sparsity", 0.05}}, 300, n_new),
              prompt + n_chunks * chunk + 4 * H * D * (n_new - 20 * n_chunks))
        << n_new << " new tokens";
  }
}

TEST(Bytes, OfGearOverKivi) {
  const nlohmann::json options = {{"backbone", "kivi"}, {"bits", 2}, {"group_size", 64}};
  const auto chunk = [](int64_t n, int64_t rank) {
    return H * D * (words(n, 2) + 4 * n / 64) + H * n * (words(D, 2) + 4 * D / 64) + low_rank(n, rank) +
           outliers(n, 0.02);
  };
  EXPECT_EQ(held("gear", options, 63, 0), 4 * H * D * 63);
  EXPECT_EQ(held("gear", options, 140, 0), chunk(128, 4) + 4 * H * D * 12);
  EXPECT_EQ(held("gear", options, 140, 52), chunk(128, 4) + 4 * H * D * 64);
  EXPECT_EQ(held("gear", options, 140, 53), chunk(128, 4) + chunk(64, 2) + 4 * H * D);
}

// GEAR's printed percentages: table 9, LLaMA2-13B (D_model 5120, head_dim 128), GSM8k with 900 prompt tokens.
TEST(Bytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 40, .n_heads = 40, .n_kv_heads = 40, .head_dim = 128};
  const auto percent = [&](const char* name, const nlohmann::json& options) {
    const PluginLibrary plugin(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (std::string(name) + ".so"));
    return 100 * plugin.make(options)->paper_bytes(model, 900, 256) / (4.0 * 5120 * 1156);
  };
  EXPECT_NEAR(percent("kivi", {{"bits", 4}, {"group_size", 64}, {"recent", 64}}), 35.2, 0.05);
  EXPECT_NEAR(percent("kivi", {{"bits", 2}, {"group_size", 64}, {"recent", 64}}), 22.7, 0.05);
  EXPECT_NEAR(percent("token_group", {{"bits", 4}, {"group_size", 64}}), 35.2, 0.05);
  EXPECT_NEAR(percent("kcvt", {{"bits", 4}}), 27.5, 0.05);
  EXPECT_NEAR(percent("gear", {{"bits", 4}, {"sparsity", 0}}), 29.3, 0.05);
  EXPECT_NEAR(percent("gear", {{"bits", 4}}), 31.3, 0.05);
}

}  // namespace
}  // namespace kvc::conformance
