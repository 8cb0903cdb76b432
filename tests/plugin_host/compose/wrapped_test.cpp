// Exact first and latest tokens, centered keys: what is stored where, and what attention sees of it.
#include <gtest/gtest.h>

#include "parts.h"

namespace kvc {
namespace {

using namespace test;

constexpr int64_t kPrompt = 100, kTokens = 130;

at::Tensor rounded(const at::Tensor& x) { return x.to(at::kHalf).to(at::kFloat); }

int64_t bytes_of(const LayerCache& cache, ByteKind kind) {
  int64_t bytes = 0;
  const auto footprint = cache.footprint();
  for (const auto& row : footprint.rows()) bytes += row.kind == kind ? row.bytes : 0;
  return bytes;
}

TEST(Sinks, AreTheFirstTokensAndAllOthersArePartOf) {
  const auto input = conformance::ordinary_input(kModel, kTokens, 3);
  const auto sinks = make_sinks(4, plugin_part("rtn", R"({"bits": 2})"));
  EXPECT_EQ(sinks.name, "sinks(rtn)");
  const auto cache = filled(*sinks.compressor, info_of(1), input, kPrompt);
  const auto held = cache->dequantize();
  EXPECT_TRUE(at::equal(held.k.narrow(1, 0, 4), rounded(input.k.narrow(1, 0, 4))));
  EXPECT_TRUE(at::equal(held.v.narrow(1, 0, 4), rounded(input.v.narrow(1, 0, 4))));
  const conformance::Input rest{"rest", input.q.narrow(1, 4, kTokens - 4), input.k.narrow(1, 4, kTokens - 4),
                                input.v.narrow(1, 4, kTokens - 4)};
  const auto alone = filled(*plugin_part("rtn", R"({"bits": 2})").compressor, info_of(1), rest, kPrompt - 4);
  EXPECT_TRUE(at::equal(held.k.narrow(1, 4, kTokens - 4), alone->dequantize().k));
  EXPECT_EQ(cache->length(), kTokens);
  EXPECT_EQ(cache->footprint().total_bytes(),
            alone->footprint().total_bytes() + 2 * 2 * 4 * kModel.n_kv_heads * kModel.head_dim);
  EXPECT_EQ(cache->n_encoded_tokens(), alone->n_encoded_tokens());
}

TEST(Recent, AreTheLatestTokensInPromptAndDecoding) {
  const auto input = conformance::ordinary_input(kModel, kTokens, 4);
  const auto recent = make_recent(16, plugin_part("rtn", R"({"bits": 2})"));
  const auto cache = filled(*recent.compressor, info_of(0), input, kPrompt);
  const auto held = cache->dequantize();
  EXPECT_TRUE(at::equal(held.k.narrow(1, kTokens - 16, 16), rounded(input.k.narrow(1, kTokens - 16, 16))));
  EXPECT_FALSE(at::equal(held.k.narrow(1, kTokens - 17, 1), rounded(input.k.narrow(1, kTokens - 17, 1))));
  EXPECT_EQ(cache->length(), kTokens);
  EXPECT_TRUE(at::equal(cache->positions(), at::arange(kTokens).expand({kModel.n_kv_heads, kTokens})));
}

TEST(Recent, HoldAShortPromptWhole) {
  const auto input = conformance::ordinary_input(kModel, 20, 5);
  const auto recent = make_recent(64, plugin_part("kivi", kKivi));
  const auto cache = filled(*recent.compressor, info_of(0), input, 12);
  EXPECT_TRUE(at::equal(cache->dequantize().k, rounded(input.k)));
  EXPECT_EQ(cache->n_encoded_tokens(), 0);
}

// A method ranks the tokens that it gets by the queries that it gets: those of the tokens before the latest.
TEST(Recent, GoAroundAnEvictingMethod) {
  const auto input = conformance::ordinary_input(kModel, kTokens, 6);
  const auto recent = make_recent(16, plugin_part("snapkv", R"({"capacity": 48, "window": 16})"));
  const auto cache = filled(*recent.compressor, info_of(0), input, kPrompt);
  EXPECT_EQ(cache->length(), kTokens);
  EXPECT_EQ(cache->dequantize().k.size(1), 48 + kTokens - kPrompt + 16);
  EXPECT_TRUE(at::equal(cache->dequantize().k.narrow(1, 48 + kTokens - kPrompt, 16),
                        rounded(input.k.narrow(1, kTokens - 16, 16))));
}

// Keys with large means in some channels, which one scale per token would have to span.
TEST(Centered, RepairsAMethodThatScalesEachTokenAlone) {
  auto input = conformance::ordinary_input(kModel, kTokens, 7);
  input.k.select(2, 3).add_(60);
  input.k.select(2, 40).sub_(45);
  const char* options = R"({"bits": 4, "group_size": 64})";
  const auto bare = filled(*plugin_part("token_group", options).compressor, info_of(0), input, kPrompt);
  const auto centered = make_centered(plugin_part("token_group", options));
  const auto cache = filled(*centered.compressor, info_of(0), input, kPrompt);
  const double bare_error = squares(bare->dequantize().k - input.k), error = squares(cache->dequantize().k - input.k);
  EXPECT_LT(error, bare_error / 10);
  EXPECT_EQ(bytes_of(*cache, ByteKind::means), 2 * kModel.n_kv_heads * kModel.head_dim);
  EXPECT_EQ(cache->footprint().total_bytes(),
            bare->footprint().total_bytes() + 2 * kModel.n_kv_heads * kModel.head_dim);
  const auto q = 0.2 * input.q.narrow(1, 0, 1);
  const auto exact = reference_attention(q, {input.k, input.v}, bare->positions(), kTokens, 0.125);
  EXPECT_LT(squares(cache->attend(q, 0.125) - exact), squares(bare->attend(q, 0.125) - exact) / 2);
}

// With a sink in the denominator the mean does not cancel: it has to be added back.
TEST(Centered, AddsTheMeanBackWhereTheModelHasSinks) {
  const auto input = conformance::ordinary_input(kModel, kTokens, 8);
  auto info = info_of(0);
  info.sinks = at::ones({kModel.n_heads});
  const auto cache =
      filled(*make_centered(plugin_part("full", R"({"dtype": "fp32"})")).compressor, info, input, kPrompt);
  const auto q = input.q.narrow(1, 0, 1);
  const auto exact = reference_attention(q, {input.k, input.v}, cache->positions(), kTokens, 0.125, info);
  EXPECT_TRUE(at::allclose(cache->attend(q, 0.125), exact, 1e-4, 1e-5));
}

TEST(Wrapped, RefusesAPartThatObservesTheWholePrompt) {
  EXPECT_NE(message_of([] { make_sinks(4, plugin_part("kvzip")); }).find("sinks: kvzip observes the whole prompt"),
            std::string::npos);
}

}  // namespace
}  // namespace kvc
