// What every plugin says of itself to a composition is what it does.
#include <gtest/gtest.h>

#include "parts.h"
#include "sandbox/memory_meter.h"

namespace kvc::test {
namespace {

using conformance::ordinary_input;

class EveryPluginComposes : public testing::TestWithParam<std::string> {};

TEST_P(EveryPluginComposes, HoldsOneTensorAloneAsItHoldsBoth) {
  const auto part = plugin_part(GetParam());
  if (!part.capabilities.splits) GTEST_SKIP() << "holds both or none";
  for (const int64_t n_prompt : {1, 70, 300}) {
    const auto input = ordinary_input(kModel, n_prompt + 150);
    const auto both = filled(*part.compressor, info_of(1), input, n_prompt);
    int64_t sum = 0;
    for (const auto holds : {Holds::k, Holds::v}) {
      const MemoryMeter live;
      const auto one = filled(*part.compressor, info_of(1, holds), input, n_prompt);
      const int64_t held = one->footprint().total_bytes();
      EXPECT_EQ(held, live.live_bytes(MemoryMeter::kModel));
      const auto all = both->dequantize(), got = one->dequantize();
      EXPECT_TRUE(same(got, holds == Holds::k ? KeyValue{all.k, {}} : KeyValue{{}, all.v})) << n_prompt;
      EXPECT_EQ(one->length(), both->length());
      EXPECT_LE(one->n_encoded_tokens(), both->n_encoded_tokens());
      sum += held;
    }
    EXPECT_EQ(sum, both->footprint().total_bytes()) << n_prompt;
  }
}

TEST_P(EveryPluginComposes, EvictsWhereItSaysSo) {
  const auto part = plugin_part(GetParam());
  const auto input = ordinary_input(kModel, 600);
  const auto cache = filled(*part.compressor, info_of(1), input, 580);
  const bool some_are_gone = cache->positions().ge(0).sum().item<int64_t>() < 600 * kModel.n_kv_heads;
  EXPECT_EQ(some_are_gone, part.capabilities.evicts);
}

TEST_P(EveryPluginComposes, ReadsTheFrequenciesWhereItSaysSo) {
  const auto part = plugin_part(GetParam());
  const auto input = ordinary_input(kModel, 300);
  std::vector<float> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(1e4f, -static_cast<float>(i) / 32));
  auto turned = info_of(1);
  turned.rope_frequencies = frequencies;
  const auto with = filled(*part.compressor, turned, input, 280),
             without = filled(*part.compressor, info_of(1), input, 280);
  EXPECT_EQ(!same(with->dequantize(), without->dequantize()), part.capabilities.turns_keys);
}

std::vector<std::string> built_plugins() {
  std::vector<std::string> names;
  for (const auto& file : find_plugins({std::filesystem::path(KVC_BINARY_DIR) / "plugins"})) {
    names.push_back(file.stem().string());
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryPluginComposes, testing::ValuesIn(built_plugins()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryPluginComposes);

}  // namespace
}  // namespace kvc::test
