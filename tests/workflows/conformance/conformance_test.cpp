// Every plugin that was built, with every listed option, on every shape of model.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "conformance/cases.h"
#include "conformance/filled_cache.h"
#include "kvc/value_checks.h"
#include "sandbox/device.h"
#include "sandbox/memory_meter.h"
#include "support/more.h"
#include "support/test_device.h"

namespace kvc::conformance {
namespace {

std::filesystem::path built(const std::string& name) {
  return std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (name + ".so");
}

std::vector<std::string> built_plugins() {
  std::vector<std::string> names;
  for (const auto& file : find_plugins({built("").parent_path()})) names.push_back(file.stem().string());
  return names;
}

class EveryPlugin : public testing::TestWithParam<std::string> {};

// The checks that case `i` meets, of others than the first one in `n`.
void run_checks(const PluginLibrary& plugin, const Case& one, size_t i = 0, size_t n = 1) {
  for (size_t j = 0; j < all_checks().size(); ++j) {
    if (!test::is_met(i, j, n)) continue;
    const auto& check = all_checks()[j];
    SCOPED_TRACE(concat(plugin.descriptor().name, " ", one.label(), ": ", check.name));
    for (const auto& complaint : run_check(check, {plugin, one.options, one.model}).complaints) {
      ADD_FAILURE() << complaint;
    }
  }
}

TEST_P(EveryPlugin, ConformsWithEveryOption) {
  const PluginLibrary plugin(built(GetParam()));
  const auto& model = model_shapes().front();
  const auto sweep = option_sweep(plugin, model);
  for (size_t i = 0; i < sweep.size(); ++i) run_checks(plugin, {sweep[i], model, ""}, i, 3);
}

// A method may refuse a shape (one KV head), but not most of them.
TEST_P(EveryPlugin, ConformsOnEveryShape) {
  const PluginLibrary plugin(built(GetParam()));
  int n_served = 0;
  for (size_t i = 1; i < model_shapes().size(); ++i) {
    const auto sweep = option_sweep(plugin, model_shapes()[i]);
    if (sweep.empty()) continue;
    run_checks(plugin, {sweep.front(), model_shapes()[i], ""}, i, 4);
    ++n_served;
  }
  EXPECT_GE(n_served, 4) << "of six shapes";
}

// The checks' device for as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(at::Device device) : before_(std::exchange(check_device(), device)) {}
  ~OnDevice() { check_device() = before_; }

 private:
  at::Device before_;
};

bool serves_the_cpu_alone(const PluginLibrary& plugin) { return *plugin.descriptor().capabilities.devices != 0; }

TEST_P(EveryPlugin, ConformsOnADevice) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  const OnDevice there(test::device());
  const auto& model = model_shapes().front();
  const auto all = built_plugins();
  const auto place = static_cast<size_t>(std::ranges::find(all, GetParam()) - all.begin());
  run_checks(plugin, {option_sweep(plugin, model).front(), model, ""}, 1 + place, 3);
}

// What the cache of `made` gives for the last token, on the CPU, and what it says to hold.
std::pair<at::Tensor, int64_t> attention_on(at::Device device, const Subject& subject, int64_t n_prompt, int64_t n,
                                            at::ScalarType dtype) {
  const OnDevice there(device);
  const auto input = ordinary_input(subject.model, n);
  const auto made = filled(subject, input, n_prompt);
  const auto out = made.cache->attend(input.q.narrow(1, n - 1, 1).to(dtype), subject.model.attention_scale);
  return {out.cpu().to(at::kDouble), made.cache->footprint().total_bytes()};
}

TEST_P(EveryPlugin, AttendsOnADeviceAsOnTheCpu) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  for (size_t m = 0; m < model_shapes().size(); ++m) {
    const auto& model = model_shapes()[m];
    const auto sweep = option_sweep(plugin, model);
    for (size_t i = 0; i < sweep.size(); ++i) {
      if (!test::is_met(m, i, 3)) continue;
      const Case one{sweep[i], model, ""};
      SCOPED_TRACE(one.label());
      const Subject subject{plugin, sweep[i], model};
      const auto [here, bytes] = attention_on(at::kCPU, subject, 150, 163, at::kFloat);
      const auto [there, bytes_there] = attention_on(test::device(), subject, 150, 163, at::kFloat);
      const double error = (there - here).square().sum().item<double>() / here.square().sum().item<double>();
      EXPECT_LE(error, 1e-6) << "normalized mean squared";
      EXPECT_EQ(bytes, bytes_there);
    }
  }
}

// Of a model in fp16 codes and exact tokens of a long prompt are read on tensor cores, which round to fp16.
TEST_P(EveryPlugin, AttendsToALongPromptOnADeviceAsOnTheCpu) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  const auto& model = model_shapes().front();
  const Subject subject{plugin, option_sweep(plugin, model).front(), model};
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    const auto [here, bytes] = attention_on(at::kCPU, subject, 1100, 1107, dtype);
    const auto [there, bytes_there] = attention_on(test::device(), subject, 1100, 1107, dtype);
    const double error = (there - here).square().sum().item<double>() / here.square().sum().item<double>();
    EXPECT_LE(error, dtype == at::kFloat ? 1e-6 : 4e-5) << "normalized mean squared; of scores that reach tens";
    EXPECT_EQ(bytes, bytes_there);
  }
}

TEST_P(EveryPlugin, RebuildsNeitherKNorVToAttendOnADevice) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  const OnDevice there(test::device());
  const auto& model = model_shapes().front();
  const auto input = ordinary_input(model, 3000);
  const auto made = filled({plugin, option_sweep(plugin, model).front(), model}, input, 2999);
  for (const auto dtype : {at::kFloat, at::kHalf}) {
    const auto q = input.q.narrow(1, 2999, 1).to(dtype);
    MemoryMeter meter;
    const int account = meter.take_account();
    {
      const MemoryMeter::Scope scope(meter, account);
      made.cache->attend(q, model.attention_scale);
    }
    const auto floats_of_k = static_cast<int64_t>(input.k.nbytes());
    EXPECT_LT(meter.peak_bytes(account), floats_of_k / 2) << "a half of K in fp32";
  }
}

struct Kept {
  KeyValue kv;
  at::Tensor positions;
};

Kept kept_on(at::Device device, const Subject& subject, size_t which_input, int64_t n_prompt) {
  auto inputs = adversarial_inputs(subject.model, 163);  // the same for both: a device rotates by its own sines
  inputs.push_back(ordinary_input(subject.model, 163));
  auto& input = inputs.at(which_input);
  for (auto* x : {&input.q, &input.k, &input.v}) *x = x->to(device);
  const OnDevice there(device);
  const auto made = filled(subject, input, n_prompt);
  const auto kv = made.cache->dequantize();
  return {{kv.k.cpu(), kv.v.cpu()}, made.cache->positions().cpu()};
}

// How many numbers differ, and those that differ most.
std::string difference(const KeyValue& there, const KeyValue& here) {
  std::string text;
  for (const auto& [a, b] : {std::pair{there.k, here.k}, std::pair{there.v, here.v}}) {
    const auto far = (a - b).abs().flatten();
    const auto at = far.argmax().item<int64_t>();
    text += concat((a != b).sum().item<int64_t>(), " of ", far.numel(), ", most: ", a.flatten()[at].item<float>(),
                   ", expected ", b.flatten()[at].item<float>(), "; ");
  }
  return text;
}

// Bit by bit, but for rotations by products in double, whose sums the CPU's loops add in another order.
TEST_P(EveryPlugin, KeepsOnADeviceWhatItKeepsOnTheCpu) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  const auto& model = model_shapes().front();
  const auto sweep = option_sweep(plugin, model);
  for (size_t i = 0; i < sweep.size(); ++i) {
    const Case one{sweep[i], model, ""};
    const Subject subject{plugin, sweep[i], model};
    for (size_t which = 0; which < 6; ++which) {
      for (const int64_t n_prompt : {1, 150}) {
        if (!test::is_met(i, 2 * which + (n_prompt == 1), 4)) continue;
        SCOPED_TRACE(concat(one.label(), ", input ", which, ", prompt of ", n_prompt));
        const auto here = kept_on(at::kCPU, subject, which, n_prompt);
        const auto there = kept_on(test::device(), subject, which, n_prompt);
        EXPECT_TRUE(at::equal(here.positions, there.positions));
        if (GetParam() == "turboquant" || GetParam() == "oscar_tni") {
          EXPECT_LE(relative_error(there.kv.k, here.kv.k), 1e-6);
          EXPECT_LE(relative_error(there.kv.v, here.kv.v), 1e-6);
        } else {
          EXPECT_TRUE(equal(there.kv, here.kv)) << difference(there.kv, here.kv);
        }
      }
    }
  }
}

// On the emulated device, which counts. Over 270 steps, in which buffers are flushed and tiles filled; checks of values
// wait, as in the generator's steps.
TEST_P(EveryPlugin, AStepOnADeviceReadsNothing) {
  const PluginLibrary plugin(built(GetParam()));
  if (serves_the_cpu_alone(plugin)) GTEST_SKIP() << plugin.descriptor().capabilities.devices;
  const int64_t allowed = GetParam() == "kvquant" ? 2 : 0;  // how many outliers a token's key and value have
  const OnDevice there(emulated_device());
  const auto& model = model_shapes().front();
  const auto sweep = option_sweep(plugin, model);
  for (size_t i = 0; i < sweep.size(); ++i) {
    const Case one{sweep[i], model, ""};
    SCOPED_TRACE(one.label());
    const int64_t n = i == 0 || test::asks_for_more() ? 420 : 220;
    const auto input = ordinary_input(model, n);
    const auto made = make({plugin, sweep[i], model});
    append(*made.cache, tokens_of(input, 0, 150));
    for (int64_t t = 150; t < n; ++t) {
      ValueChecks checks;
      const int64_t before = n_reads_of_emulated_device();
      {
        const ValueChecks::Collecting later(checks);
        append(*made.cache, tokens_of(input, t, 1));
        if (t % 40 == 0) made.cache->attend(input.q.narrow(1, t, 1), model.attention_scale);
      }
      ASSERT_LE(n_reads_of_emulated_device() - before, allowed) << "token " << t;
      checks.settle();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryPlugin, testing::ValuesIn(built_plugins()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryPlugin);

}  // namespace
}  // namespace kvc::conformance
