// Compositions on a device: their attention and sizes are the CPU's, with tokens stored as a generator's step stores them.
#include <gtest/gtest.h>

#include "conformance/filled_cache.h"
#include "cuda_emulator/emulated_device.h"
#include "parts.h"

namespace kvc {
namespace {

using namespace test;

constexpr int64_t kPrompt = 100, kTokens = 140;

struct Held {
  at::Tensor attention, positions;
  KeyValue kv;
  int64_t bytes = 0;
};

Held held_on(at::Device device, const Compressor& compressor) {
  auto input = conformance::ordinary_input(kModel, kTokens, 3);
  for (auto* x : {&input.q, &input.k, &input.v}) *x = x->to(device);
  const auto cache = compressor.make_cache(layer_info(kModel, 1, 7, {}, device));
  conformance::fill(compressor, *cache, input, kPrompt);
  const auto kv = cache->dequantize();
  return {cache->attend(input.q.narrow(1, kTokens - 1, 1), kModel.attention_scale).cpu(),
          cache->positions().cpu(),
          {kv.k.cpu(), kv.v.cpu()},
          cache->footprint().total_bytes()};
}

TEST(OnADevice, CompositionsKeepAndAttendToWhatTheyDoOnTheCpu) {
  const auto rtn = [] { return plugin_part("rtn", R"({"bits": 4})"); };
  std::vector<Part> all;
  all.push_back(make_sinks(4, rtn()));
  all.push_back(make_sinks(4, plugin_part("kivi", kKivi)));
  all.push_back(make_recent(16, rtn()));
  all.push_back(make_recent(16, plugin_part("snapkv", R"({"capacity": 48, "window": 16})")));
  all.push_back(make_recent(16, plugin_part("fp8")));
  all.push_back(make_centered(plugin_part("kivi", kKivi)));
  all.push_back(
      make_chain(parts(plugin_part("snapkv", R"({"capacity": 48, "window": 16})"), plugin_part("kivi", kKivi)), {}));
  all.push_back(make_chain(parts(plugin_part("kivi", kKivi), rtn()), {}));
  for (const auto& part : all) {
    SCOPED_TRACE(part.name);
    const auto here = held_on(at::kCPU, *part.compressor), there = held_on(emulated_device(), *part.compressor);
    EXPECT_TRUE(at::equal(there.positions, here.positions));
    EXPECT_TRUE(same(there.kv, here.kv));
    EXPECT_LE(squares(there.attention - here.attention), 1e-8 * squares(here.attention));
    EXPECT_EQ(there.bytes, here.bytes);
  }
}

}  // namespace
}  // namespace kvc
