#include <gtest/gtest.h>

#include "attention64.h"

namespace kvc::conformance {
namespace {

LayerInfo layer(int64_t i, int64_t n_layers) {
  return {.layer = i, .n_layers = n_layers, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32};
}

// What each layer keeps of a prompt of n tokens, window included; capacity 28, window 8: 20 ranked ones in the mean.
std::vector<size_t> kept_by_layer(int64_t n, int64_t n_layers, int64_t beta) {
  std::vector<size_t> kept;
  for (int64_t i = 0; i < n_layers; ++i) {
    const OpenCache cache("pyramidkv", {{"capacity", 28}, {"window", 8}, {"beta", beta}}, layer(i, n_layers));
    cache->append(RandomTokens(layer(i, n_layers), n).part(0, n));
    kept.push_back(positions_of(*cache.cache)[0].size());
  }
  return kept;
}

// By the paper's formula, by hand: min = 20/beta, max = 40 - min.
TEST(PyramidKv, BudgetsFallFromLayerToLayerAroundTheCapacity) {
  EXPECT_EQ(kept_by_layer(200, 5, 20), (std::vector<size_t>{8 + 39, 8 + 30, 8 + 20, 8 + 10, 8 + 1}));
  EXPECT_EQ(kept_by_layer(200, 3, 4), (std::vector<size_t>{8 + 35, 8 + 20, 8 + 5}));
  EXPECT_EQ(kept_by_layer(200, 3, 1), (std::vector<size_t>{28, 28, 28}));
  EXPECT_EQ(kept_by_layer(200, 1, 20), (std::vector<size_t>{28}));
}

TEST(PyramidKv, NoLayerIsGivenMoreThanThePromptAndTheMeanStays) {
  EXPECT_EQ(kept_by_layer(40, 5, 20), (std::vector<size_t>{40, 8 + 26, 8 + 20, 8 + 14, 8 + 8}));
  EXPECT_EQ(kept_by_layer(29, 3, 20), (std::vector<size_t>{29, 28, 27}));
  EXPECT_EQ(kept_by_layer(28, 3, 20), (std::vector<size_t>{28, 28, 28}));  // stays whole
}

TEST(PyramidKv, ALayerKeepsWhatSnapKvKeepsWithThatCapacity) {
  const auto info = layer(1, 5);
  const RandomTokens x(info, 90);
  for (const char* pooling : {"avg", "max"}) {
    const nlohmann::json votes = {{"window", 8}, {"kernel", 3}, {"pooling", pooling}};
    auto pyramid = votes, snap = votes;
    pyramid["capacity"] = 28, snap["capacity"] = 8 + 30;
    const OpenCache ours("pyramidkv", pyramid, info), theirs("snapkv", snap, info);
    for (const auto* cache : {&ours, &theirs}) {
      (*cache)->append(x.part(0, 80));
      for (int64_t t = 80; t < 90; ++t) (*cache)->append(x.part(t, 1));
    }
    EXPECT_EQ(positions_of(*ours.cache), positions_of(*theirs.cache)) << pooling;
    EXPECT_TRUE(at::equal(ours->dequantize().k, theirs->dequantize().k)) << pooling;
  }
}

}  // namespace
}  // namespace kvc::conformance
