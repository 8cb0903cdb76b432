// Compositions with a part that acts at the prompt's end, over layers.
#include <gtest/gtest.h>

#include "parts.h"

namespace kvc::test {
namespace {

using conformance::ordinary_input;
using conformance::tokens_of;
using Caches = std::vector<std::unique_ptr<LayerCache>>;

RuleScope in_layers(int64_t first, int64_t last) { return {.layers = {{first, last}}}; }

// Caches of these layers, with tokens of their own, up to the end of a prompt and two tokens more.
Caches ended(const Compressor& compressor, std::vector<int64_t> of_layers) {
  Caches caches;
  std::vector<LayerCache*> all;
  for (const int64_t layer : of_layers) {
    const auto input = ordinary_input(kModel, 90, static_cast<uint64_t>(layer));
    const auto prompt = tokens_of(input, 0, 90);
    caches.push_back(compressor.make_cache(info_of(layer)));
    caches.back()->append(prompt);
    observe_itself(compressor, *caches.back(), prompt);
    all.push_back(caches.back().get());
  }
  finish_prefill(compressor, all);
  for (size_t i = 0; i < caches.size(); ++i) {
    const auto input = ordinary_input(kModel, 92, static_cast<uint64_t>(of_layers[i]));
    for (const int64_t t : {90, 91}) caches[i]->append(tokens_of(input, t, 1));
  }
  return caches;
}

TEST(JointRules, LayersThatRulesLeaveToAPartShareItsBudget) {
  const auto rules = make_rules(parts(plugin_part("kvzip"), plugin_part("kivi", kKivi)), {in_layers(1, 2)}, 4);
  const auto kvzip = plugin_part("kvzip"), kivi = plugin_part("kivi", kKivi);
  const auto all = ended(*rules.compressor, {0, 1, 2, 3}), alone = ended(*kvzip.compressor, {0, 3}),
             others = ended(*kivi.compressor, {1, 2});
  for (const auto& [got, expected] : {std::pair(&all[0], &alone[0]), std::pair(&all[3], &alone[1]),
                                      std::pair(&all[1], &others[0]), std::pair(&all[2], &others[1])}) {
    EXPECT_TRUE(same((*got)->dequantize(), (*expected)->dequantize()));
    EXPECT_TRUE(at::equal((*got)->positions(), (*expected)->positions()));
    EXPECT_EQ((*got)->footprint().total_bytes(), (*expected)->footprint().total_bytes());
  }
  int64_t n_pairs = 0;
  for (const int64_t layer : {0, 3})
    n_pairs += all[static_cast<size_t>(layer)]->positions().ge(0).sum().item<int64_t>();
  EXPECT_EQ(n_pairs, 108 + 2 * 2 * 2);  // 0.3 * 90 tokens * 2 heads * 2 layers, and two tokens more of each head
}

TEST(JointRules, OfThePromptAloneItEndsAndAnotherHoldsWhatIsDecoded) {
  const auto rules =
      make_rules(parts(plugin_part("kvzip"), plugin_part("full")), {{.layers = {}, .tensor = {}, .decode = true}}, 4);
  const auto kvzip = plugin_part("kvzip");
  const auto both = ended(*rules.compressor, {0, 1, 2, 3}), alone = ended(*kvzip.compressor, {0, 1, 2, 3});
  for (size_t layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(same(both[layer]->dequantize(), alone[layer]->dequantize()));
    EXPECT_TRUE(at::equal(both[layer]->positions(), alone[layer]->positions()));
  }
}

TEST(JointRules, PassAnObservationOn) {
  const auto rules =
      make_rules(parts(plugin_part("kivi", kKivi), plugin_part("kvzip", R"({"chunk": 77})")), {in_layers(0, 1)}, 4);
  const auto* pass = dynamic_cast<const ObservationPass*>(rules.compressor.get());
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->observation().chunk_tokens, 77);
  const auto plain = make_rules(parts(plugin_part("kivi", kKivi), plugin_part("full")), {in_layers(0, 1)}, 4);
  EXPECT_FALSE(dynamic_cast<const JointPrefill*>(plain.compressor.get()));
}

TEST(JointRules, AreRefusedWhereThePartCannotServe) {
  const auto refusal = [](std::vector<Part> parts, std::vector<RuleScope> scopes) {
    return message_of([&] { make_rules(std::move(parts), std::move(scopes), 4); });
  };
  const RuleScope decoding{.layers = {}, .tensor = {}, .decode = true};
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("kvzip")), {decoding}),
            "rules: rule 1 (kvzip) acts at the prompt's end; in layer 0 it would hold the tokens after it alone");
  EXPECT_EQ(refusal(parts(plugin_part("kvzip"), plugin_part("kvzip", R"({"chunk": 7})")), {in_layers(1, 1)}),
            "rules: rule 1 (kvzip) and default (kvzip) ask for different observation passes, allowed: one");
  EXPECT_EQ(refusal(parts(plugin_part("kvzip"), plugin_part("kvzip", R"({"keep": 0.5})")), {in_layers(1, 1)}),
            "no error");
}

TEST(JointChain, IsRefused) {
  EXPECT_EQ(
      message_of([] { make_chain(parts(plugin_part("kvzip"), plugin_part("kivi", kKivi)), {}); }),
      "chain: stage 1 (kvzip) acts once the prompt is in the caches of all layers, and a chain passes on the tokens "
      "of a layer as they come");
}

}  // namespace
}  // namespace kvc::test
