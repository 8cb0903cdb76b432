// What caches hold at lengths that no sample has, once a compressor, in the database of a run.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

struct Sizes : testing::Test {
  Finished run(const std::string& compressors, const std::string& sizes) {
    const auto file = folder_.write("x.yaml", small_experiment(compressors, 1)).string();
    return run_program(folder_, {"run", file, "--db", database_.string(), "--set", "sizes=" + sizes});
  }
  std::string rows(const std::string& plugin) {
    auto store = ResultStore::open_readonly(database_);
    return store.database().text(
        "SELECT group_concat(n_tokens || ':' || kv_bytes || ',' || recent_bytes || ',' || n_encoded_numbers || ',' ||"
        " kv_bytes_fp16, ' ') FROM (SELECT s.* FROM cell_size AS s JOIN cell ON key = cell_key WHERE plugin = '" +
        plugin + "' AND task = 'demo/truth' ORDER BY n_tokens)");
  }
  int64_t n_rows() {
    return ResultStore::open_readonly(database_).database().integer("SELECT count(*) FROM cell_size");
  }

  TempFolder folder_;
  std::filesystem::path database_ = folder_ / "r.sqlite";
};

// kivi: K in runs of 32 tokens, V beyond the newest 32; 2 bits and 4/32 bytes a number. Four layers, 2 heads of 64.
constexpr int64_t kWidth = 4 * 2 * 64;
std::string pencil(int64_t n, int64_t n_k, int64_t n_v) {
  const int64_t encoded = kWidth * (n_k + n_v), recent = 2 * kWidth * (2 * n - n_k - n_v);
  return concat(n, ":", encoded * 3 / 8 + recent, ",", recent, ",", encoded, ",", 4 * kWidth * n);
}

TEST_F(Sizes, AreTheSameInEveryCellOfACompressorAndMeasuredOnce) {
  const std::string compressors = "  - full\n  - kivi: {bits: 2, group_size: 32, recent: 32}\n";
  ASSERT_EQ(run(compressors, "[]").exit_code, 0);
  EXPECT_EQ(n_rows(), 0);
  const auto later = run(compressors, "[1000, 4096]");
  EXPECT_NE(later.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << later.err;
  EXPECT_EQ(n_rows(), 2 * 2 * 2);
  EXPECT_EQ(rows("kivi"), pencil(1000, 992, 968) + " " + pencil(4096, 4096, 4064));
  EXPECT_EQ(rows("full"), concat("1000:", 4 * kWidth * 1000, ",", 4 * kWidth * 1000, ",0,", 4 * kWidth * 1000,
                                 " 4096:", 4 * kWidth * 4096, ",", 4 * kWidth * 4096, ",0,", 4 * kWidth * 4096));
  EXPECT_NE(later.out.find("| at 1000 [%] | at 4K [%] |"), std::string::npos) << later.out;
}

TEST_F(Sizes, OfRulesByLayerAreEachLayersOwn) {
  const std::string rules =
      "  - rules:\n      default: {kivi: {bits: 2, group_size: 32, recent: 32}}\n"
      "      where:\n        - {layers: 1, use: full}\n";
  ASSERT_EQ(run(rules, "[1024]").exit_code, 0);
  const int64_t encoded = 3 * 128 * (1024 + 992), recent = 2 * 3 * 128 * 32 + 4 * 128 * 1024;
  EXPECT_EQ(rows("kivi/full"),
            concat("1024:", encoded * 3 / 8 + recent, ",", recent, ",", encoded, ",", 4 * kWidth * 1024));
}

TEST_F(Sizes, ACompressorWithoutAResultHasNone) {
  EXPECT_EQ(run("  - full\n  - crashes\n", "[100]").exit_code, 4);
  EXPECT_EQ(n_rows(), 2);
}

}  // namespace
}  // namespace kvc::test
