// Rules against the parts alone: bit for bit by layer, by tensor, by phase.
#include <gtest/gtest.h>

#include "parts.h"
#include "sandbox/memory_meter.h"

namespace kvc::test {
namespace {

using conformance::ordinary_input;

const char kGear[] = R"({"backbone": "kivi", "bits": 2, "group_size": 32, "buffer": 32, "rank": 2})";

RuleScope layers(int64_t first, int64_t last) { return {.layers = {{first, last}}}; }
RuleScope tensor(CacheTensor tensor) { return {.layers = {}, .tensor = tensor}; }
RuleScope decoding(bool decode) { return {.layers = {}, .tensor = {}, .decode = decode}; }

TEST(Rules, ByLayerAreThePartsAlone) {
  const auto rules = make_rules(parts(plugin_part("kivi", kKivi), plugin_part("rtn"), plugin_part("snapkv")),
                                {layers(1, 2), {.layers = {{2, 2}, {0, 0}}}}, 4);
  EXPECT_EQ(rules.name, "kivi/rtn/snapkv");
  const auto kivi = plugin_part("kivi", kKivi), rtn = plugin_part("rtn"), snapkv = plugin_part("snapkv");
  const std::vector<const Part*> expected = {&snapkv, &rtn, &snapkv, &kivi};  // the later rule wins in layer 2
  const std::vector<size_t> stages = {3, 2, 3, 1};
  const auto input = ordinary_input(kModel, 330);
  for (int64_t layer = 0; layer < 4; ++layer) {
    const auto by_rule = filled(*rules.compressor, info_of(layer), input, 300);
    const auto alone = filled(*expected[static_cast<size_t>(layer)]->compressor, info_of(layer), input, 300);
    EXPECT_TRUE(same(by_rule->dequantize(), alone->dequantize())) << layer;
    EXPECT_TRUE(at::equal(by_rule->positions(), alone->positions())) << layer;
    EXPECT_EQ(by_rule->n_encoded_tokens(), alone->n_encoded_tokens()) << layer;
    const auto q = input.q.narrow(1, 329, 1);
    EXPECT_TRUE(at::equal(by_rule->attend(q, 0.125), alone->attend(q, 0.125))) << layer;
    std::vector<int64_t> bytes(4, 0);
    bytes[stages[static_cast<size_t>(layer)]] = alone->footprint().total_bytes();
    EXPECT_EQ(stage_bytes(*by_rule), bytes) << layer;
  }
}

TEST(Rules, ByTensorAreTheTensorsOfTheParts) {
  const auto rules =
      make_rules(parts(plugin_part("gear", kGear), plugin_part("kivi", kKivi)), {tensor(CacheTensor::k)}, 4);
  const auto gear = plugin_part("gear", kGear), kivi = plugin_part("kivi", kKivi);
  const auto input = ordinary_input(kModel, 170);
  const MemoryMeter live;
  const auto split = filled(*rules.compressor, info_of(1), input, 100);
  EXPECT_EQ(split->footprint().total_bytes(), live.live_bytes(MemoryMeter::kModel));
  const auto of_k = filled(*kivi.compressor, info_of(1), input, 100);
  const auto of_v = filled(*gear.compressor, info_of(1), input, 100);
  EXPECT_TRUE(same(split->dequantize(), {of_k->dequantize().k, of_v->dequantize().v}));
  EXPECT_EQ(stage_bytes(*split),
            (std::vector<int64_t>{0, bytes_of(*of_v, CacheTensor::v), bytes_of(*of_k, CacheTensor::k)}));
  EXPECT_EQ(bytes_of(*split, CacheTensor::k), bytes_of(*of_k, CacheTensor::k));
  EXPECT_EQ(split->length(), 170);
}

TEST(Rules, ByPhaseAreThePromptOfOneAndTheRestOfTheOther) {
  const auto rules =
      make_rules(parts(plugin_part("snapkv", R"({"capacity": 64})"), plugin_part("kivi", kKivi)), {decoding(true)}, 4);
  const auto snapkv = plugin_part("snapkv", R"({"capacity": 64})"), kivi = plugin_part("kivi", kKivi);
  const auto input = ordinary_input(kModel, 190);
  const auto cache = filled(*rules.compressor, info_of(1), input, 120);
  const auto first = snapkv.compressor->make_cache(info_of(1));
  first->append(conformance::tokens_of(input, 0, 120));
  const conformance::Input later{"later", input.q.narrow(1, 120, 70), input.k.narrow(1, 120, 70),
                                 input.v.narrow(1, 120, 70)};
  const auto rest = filled(*kivi.compressor, info_of(1), later, 1);
  EXPECT_TRUE(same(cache->dequantize(), {at::cat({first->dequantize().k, rest->dequantize().k}, 1),
                                         at::cat({first->dequantize().v, rest->dequantize().v}, 1)}));
  EXPECT_TRUE(at::equal(cache->positions(), at::cat({first->positions(), rest->positions() + 120}, 1)));
  EXPECT_EQ(stage_bytes(*cache),
            (std::vector<int64_t>{0, first->footprint().total_bytes(), rest->footprint().total_bytes()}));
  EXPECT_EQ(cache->n_encoded_tokens(), 120 - 64 + rest->n_encoded_tokens());
  EXPECT_EQ(cache->length(), 190);
}

// V of decoding alone goes elsewhere: K stays one cache, V is two.
TEST(Rules, OfTensorAndPhaseLeaveTheOtherTensorWhole) {
  const auto rules = make_rules(parts(plugin_part("kivi", kKivi), plugin_part("full")),
                                {{.layers = {{1, 1}}, .tensor = CacheTensor::v, .decode = true}}, 4);
  const auto kivi = plugin_part("kivi", kKivi);
  const auto input = ordinary_input(kModel, 200);
  const auto cache = filled(*rules.compressor, info_of(1), input, 100);
  const auto prompt = kivi.compressor->make_cache(info_of(1));
  prompt->append(conformance::tokens_of(input, 0, 100));
  EXPECT_TRUE(at::equal(cache->dequantize().k, filled(*kivi.compressor, info_of(1), input, 100)->dequantize().k));
  EXPECT_TRUE(at::equal(cache->dequantize().v.narrow(1, 0, 100), prompt->dequantize().v));
  EXPECT_TRUE(
      at::equal(cache->dequantize().v.narrow(1, 100, 100), input.v.narrow(1, 100, 100).to(at::kHalf).to(at::kFloat)));
}

TEST(Rules, StandInsideChainsAndChainsInsideRules) {
  auto quantizers = make_rules(parts(plugin_part("rtn", R"({"bits": 2})"), plugin_part("rtn", R"({"bits": 8})")),
                               {tensor(CacheTensor::v)}, 4);
  auto chain = make_chain(parts(plugin_part("window"), std::move(quantizers)), std::nullopt);
  EXPECT_EQ(chain.name, "window+(rtn/rtn)");
  const auto rules = make_rules(parts(plugin_part("full"), std::move(chain)), {layers(0, 1)}, 4);
  EXPECT_EQ(rules.name, "full/(window+(rtn/rtn))");
  EXPECT_EQ(rules.n_stages, 4);
  const auto input = ordinary_input(kModel, 400);
  const auto cache = filled(*rules.compressor, info_of(0), input, 390);
  // full; the kept positions; K at 2 bits and V at 8 of 266 tokens, 2 heads of 64 channels, a step a token
  EXPECT_EQ(stage_bytes(*cache), (std::vector<int64_t>{0, 0, 4 * 256, 266 * (2 * 16 + 2), 266 * (2 * 64 + 2)}));
}

TEST(Rules, SayTheMeanOfTheirBitsAndThePapersBytesByLayer) {
  const auto by_layer =
      make_rules(parts(plugin_part("rtn", R"({"bits": 2})"), plugin_part("rtn", R"({"bits": 8})")), {layers(0, 0)}, 4);
  EXPECT_EQ(by_layer.compressor->bits(), (8 + 3 * 2) / 4.0);
  EXPECT_EQ(by_layer.compressor->paper_bytes(kModel, 100, 0), 100 * 2 * 64 * 2 * (8 + 3 * 2) / 4.0 / 8);
  const auto by_tensor = make_rules(parts(plugin_part("rtn", R"({"bits": 2})"), plugin_part("rtn", R"({"bits": 8})")),
                                    {tensor(CacheTensor::k)}, 4);
  EXPECT_EQ(by_tensor.compressor->bits(), 5);
  EXPECT_TRUE(std::isnan(by_tensor.compressor->paper_bytes(kModel, 100, 0)));
}

TEST(RuleScopes, NumberTheLayersThatHaveASlidingWindow) {
  ModelShape model = kModel;
  model.layers.assign(4, {.sliding_window = 512, .has_rope = true});
  model.layers[2].sliding_window = 0;
  const RuleScope scope{.layers = {{2, 2}}, .windowed = true};
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(scope.in_layers_of(model).layers, (Ranges{{2, 2}, {0, 1}, {3, 3}}));
  EXPECT_EQ(to_string(scope), "layers 2, with a sliding window");
  EXPECT_EQ(message_of([] { RuleScope{.windowed = true}.in_layers_of(kModel); }),
            "rules: layers sliding_window: no layer of the model has one");
}

TEST(Rules, RefuseWhatTheirPartsCannotHold) {
  const auto refusal = [](std::vector<Part> used, std::vector<RuleScope> scopes) {
    return message_of([&] { make_rules(std::move(used), std::move(scopes), 4).compressor->check_model(kModel); });
  };
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("snapkv")), {tensor(CacheTensor::k)}),
            "rules: rule 1 (snapkv) would hold one of K and V of layer 0 only, but it needs both");
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("kvquant")), {decoding(true)}),
            "rules: rule 1 (kvquant) wants keys before RoPE, which takes tokens at the positions of the text; in layer "
            "0 it would hold those after the prompt alone");
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("rtn")), {layers(2, 4)}),
            "rules: rule 1: layers 2-4, allowed: 0 to 3");
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("rtn"), plugin_part("fp8")), {layers(1, 1), layers(0, 3)}),
            "rules: rule 1: later rules take all that it names");
  EXPECT_EQ(refusal(parts(plugin_part("full"), plugin_part("kivi", R"({"group_size": 128})")), {layers(1, 1)}),
            "rules: rule 1 (kivi): kivi: group_size 128 does not divide head_dim 64");
}

}  // namespace
}  // namespace kvc::test
