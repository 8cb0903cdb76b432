// Every plugin that was built, with every listed option, on five shapes of model.
#include <gtest/gtest.h>

#include "checks.h"

namespace kvc::conformance {
namespace {

std::vector<std::string> built_plugins() {
  std::vector<std::string> names;
  for (const auto& file : find_plugins({std::filesystem::path(KVC_BINARY_DIR) / "plugins"}))
    names.push_back(file.stem().string());
  return names;
}

class EveryPlugin : public testing::TestWithParam<std::string> {};

void run_all(const PluginLibrary& plugin, const ModelShape& model, const std::vector<nlohmann::json>& sweep) {
  for (const auto& options : sweep) {
    for (const auto& check : all_checks()) {
      SCOPED_TRACE(concat(plugin.descriptor().name, " ", options.dump(), " heads ", model.n_heads, "/",
                          model.n_kv_heads, " head_dim ", model.head_dim, " window ", model.sliding_window, " ",
                          check.name));
      Complaints complaints;
      EXPECT_NO_THROW({
        try {
          complaints = check.run({plugin, options, model});
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      });
      for (const auto& complaint : complaints) ADD_FAILURE() << complaint;
    }
  }
}

TEST_P(EveryPlugin, ConformsWithEveryOption) {
  const PluginLibrary plugin(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (GetParam() + ".so"));
  const ModelShape model{.n_layers = 4, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64};
  run_all(plugin, model, option_sweep(plugin, model));
}

// GQA 1:1, 4:1, 8:1, a head_dim of 128, and a sliding window, with the defaults (or the smallest groups). A method may
// refuse a shape (one KV head), but not most of them.
TEST_P(EveryPlugin, ConformsOnEveryShape) {
  const PluginLibrary plugin(std::filesystem::path(KVC_BINARY_DIR) / "plugins" / (GetParam() + ".so"));
  int n_served = 0;
  for (const ModelShape& model : {ModelShape{2, 2, 2, 32}, ModelShape{2, 4, 1, 64}, ModelShape{2, 8, 1, 16},
                                  ModelShape{2, 4, 2, 128}, ModelShape{2, 4, 2, 64, 45}}) {
    const auto sweep = option_sweep(plugin, model);
    if (sweep.empty()) continue;
    run_all(plugin, model, {sweep.front()});
    ++n_served;
  }
  EXPECT_GE(n_served, 3) << "of five shapes";
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryPlugin, testing::ValuesIn(built_plugins()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryPlugin);

}  // namespace
}  // namespace kvc::conformance
