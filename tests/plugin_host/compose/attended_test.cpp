// Compositions of caches whose attention is not that of their nearest K: each passes on what attention sees.
#include <gtest/gtest.h>

#include "parts.h"

namespace kvc::test {
namespace {

using conformance::Input;
using conformance::ordinary_input;

constexpr const char* kSketched = R"({"bits": 2, "keys": "inner_product"})";
constexpr const char* kQjl = R"({"sketch": 64, "outlier_sketch": 32, "initial_layers": 0, "outlier_channels": 2,
                                 "group_size": 16, "buffer": 16})";

// The cache's attention is the reference's over `seen`, and not over its nearest K and V.
void expect_attends_to(const LayerCache& cache, const KeyValue& seen, const Input& input) {
  EXPECT_TRUE(same(cache.attended(), seen));
  const auto q = input.q.narrow(1, cache.length() - 1, 1);
  const auto got = cache.attend(q, 0.125);
  const auto error = [&](const KeyValue& kv) {
    const auto expected = reference_attention(q, kv, cache.positions(), cache.length(), 0.125);
    return ((got - expected).abs().max() / expected.abs().max()).item<double>();
  };
  EXPECT_LT(error(seen), 1e-4);
  EXPECT_GT(error(cache.dequantize()), 1e-2);
}

TEST(Attended, IsThePartsOwnInEveryRule) {
  const auto input = ordinary_input(kModel, 96);
  const auto sketched = plugin_part("turboquant", kSketched), rtn = plugin_part("rtn");
  const auto by_rule = [&](const RuleScope& scope) {
    return make_rules(parts(plugin_part("turboquant", kSketched), plugin_part("rtn")), {scope}, 4);
  };
  const auto of_sketch = filled(*sketched.compressor, info_of(1), input, 64)->attended();
  const auto of_rtn = filled(*rtn.compressor, info_of(1), input, 64)->attended();

  const auto by_layer = by_rule({.layers = {{2, 2}}});
  expect_attends_to(*filled(*by_layer.compressor, info_of(1), input, 64), of_sketch, input);
  const auto by_tensor = by_rule({.tensor = CacheTensor::v});
  expect_attends_to(*filled(*by_tensor.compressor, info_of(1), input, 64), {of_sketch.k, of_rtn.v}, input);
  const auto by_phase = by_rule({.decode = true});
  const auto two = [&](const at::Tensor& prompt, const at::Tensor& rest) {  // rtn codes each token alone
    return at::cat({prompt.narrow(1, 0, 64), rest.narrow(1, 64, 32)}, 1);
  };
  expect_attends_to(*filled(*by_phase.compressor, info_of(1), input, 64),
                    {two(of_sketch.k, of_rtn.k), two(of_sketch.v, of_rtn.v)}, input);
}

TEST(Attended, IsTheStoragesBehindAnEviction) {
  const auto input = ordinary_input(kModel, 64);
  const auto chain =
      make_chain(parts(plugin_part("window", R"({"sinks": 4, "recent": 28})"), plugin_part("qjl", kQjl)), std::nullopt);
  const auto cache = filled(*chain.compressor, info_of(1), input, 64);
  const auto kept = [&](const at::Tensor& x) {
    return at::cat({x.narrow(1, 0, 4), x.narrow(1, 36, 28)}, 1).to(at::kHalf).to(at::kFloat);
  };
  const auto alone = plugin_part("qjl", kQjl).compressor;
  const auto by_hand = alone->make_cache(info_of(1));
  by_hand->append({{}, kept(input.k), kept(input.v), 0});
  expect_attends_to(*cache, by_hand->attended(), input);
}

// The last stage's estimator is of the error that the others' nearest K leaves. A stage before the last that showed its
// own estimator would show its error twice.
TEST(Attended, OfAChainIsItsLastStagesUponTheOthersNearest) {
  auto input = ordinary_input(kModel, 64);
  input.k = input.k.to(at::kHalf).to(at::kFloat), input.v = input.v.to(at::kHalf).to(at::kFloat);
  const auto rtn = plugin_part("rtn", R"({"bits": 2})"), sketched = plugin_part("turboquant", kSketched);
  const auto first = filled(*rtn.compressor, info_of(1), input, 64)->dequantize();
  const auto second = sketched.compressor->make_cache(info_of(1));
  second->append({{}, input.k - first.k, input.v - first.v, 0});
  const auto chain = make_chain(parts(plugin_part("rtn", R"({"bits": 2})"), plugin_part("turboquant", kSketched)), 64);
  const auto upon = second->attended();
  expect_attends_to(*filled(*chain.compressor, info_of(1), input, 64), {first.k + upon.k, first.v + upon.v}, input);

  const auto other = make_chain(parts(plugin_part("turboquant", kSketched), plugin_part("rtn")), 64);
  const auto cache = filled(*other.compressor, info_of(1), input, 64);
  EXPECT_TRUE(same(cache->attended(), cache->dequantize()));
}

}  // namespace
}  // namespace kvc::test
