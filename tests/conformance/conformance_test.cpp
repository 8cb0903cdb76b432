// Every plugin that was built, with every listed option, on every shape of model.
#include <gtest/gtest.h>

#include "conformance/cases.h"

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

void run_all(const PluginLibrary& plugin, const Case& one) {
  for (const auto& check : all_checks()) {
    SCOPED_TRACE(concat(plugin.descriptor().name, " ", one.label(), ": ", check.name));
    for (const auto& complaint : run_check(check, {plugin, one.options, one.model}).complaints) {
      ADD_FAILURE() << complaint;
    }
  }
}

TEST_P(EveryPlugin, ConformsWithEveryOption) {
  const PluginLibrary plugin(built(GetParam()));
  const auto& model = model_shapes().front();
  for (const auto& options : option_sweep(plugin, model)) run_all(plugin, {options, model, ""});
}

// A method may refuse a shape (one KV head), but not most of them.
TEST_P(EveryPlugin, ConformsOnEveryShape) {
  const PluginLibrary plugin(built(GetParam()));
  int n_served = 0;
  for (size_t i = 1; i < model_shapes().size(); ++i) {
    const auto sweep = option_sweep(plugin, model_shapes()[i]);
    if (sweep.empty()) continue;
    run_all(plugin, {sweep.front(), model_shapes()[i], ""});
    ++n_served;
  }
  EXPECT_GE(n_served, 4) << "of six shapes";
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryPlugin, testing::ValuesIn(built_plugins()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EveryPlugin);

}  // namespace
}  // namespace kvc::conformance
