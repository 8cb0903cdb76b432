// quanto's pencil formula. The public code's records are in the census; what encoding again does is tested with the
// primitive.
#include <gtest/gtest.h>

#include "compressors/plugin_library.h"
#include "inputs.h"

namespace kvc::conformance {
namespace {

std::unique_ptr<Compressor> quanto_with(const nlohmann::json& options) {
  static const PluginLibrary library(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / "quanto.so");
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

int64_t up(int64_t n, int64_t of) { return (n + of - 1) / of; }

// The window of 32 is full with its 32nd token, and encoded by the next append.
TEST(QuantoBytes, FollowThePencilOnAndOffTheBorders) {
  const ModelShape model{.n_heads = 4, .n_kv_heads = 2, .head_dim = 48};
  for (const int64_t bits : {2, 4}) {
    for (const int64_t n_prompt : {1, 63, 64, 129}) {
      for (const int64_t n_new : {0, 1, 31, 32, 33, 64, 65}) {
        const int64_t n_recent = n_new == 0 ? 0 : (n_new - 1) % 32 + 1, n = n_prompt + n_new - n_recent;
        const int64_t group = 64 * bits / 8 + 4;
        const int64_t k_groups = up(2 * n * 48, 64), v_groups = 48 * up(2 * n, 64);
        EXPECT_EQ(bytes_of(*quanto_with({{"bits", bits}, {"residual", 32}, {"axis_v", -1}}), model, n_prompt, n_new),
                  (k_groups + v_groups) * group + 2 * 2 * 2 * 48 * n_recent)
            << bits << " bits, " << n_prompt << " + " << n_new;
      }
    }
  }
}

// TaDA's tables: its Quanto rows hold 0.25 (2 bits) and 0.37 to 0.38 (4 bits) of the 16-bit cache.
TEST(QuantoBytes, OfThePaperArePrintedAsThePaperPrintsThem) {
  const ModelShape model{.n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .head_dim = 128};
  const double whole = 4.0 * 8 * 128 * 1000;
  EXPECT_NEAR(quanto_with({{"bits", 2}})->paper_bytes(model, 900, 100) / whole, 0.25, 0.005);
  EXPECT_NEAR(quanto_with({{"bits", 4}})->paper_bytes(model, 900, 100) / whole, 0.375, 0.005);
}

// What it really holds: 2 + 32/64 and 4 + 32/64 bits a number, as long as groups come out even.
TEST(QuantoBytes, AreHalfABitANumberAboveTheCodes) {
  const ModelShape model{.n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .head_dim = 64};
  EXPECT_EQ(bytes_of(*quanto_with({{"bits", 2}}), model, 640, 0), 2 * 2 * 64 * 640 * 5 / 16);
  EXPECT_EQ(bytes_of(*quanto_with({{"bits", 4}}), model, 640, 0), 2 * 2 * 64 * 640 * 9 / 16);
}

}  // namespace
}  // namespace kvc::conformance
