// What every plugin must do, asked of compositions (tests/plugins/composed).
#include <gtest/gtest.h>

#include "conformance/checks.h"

namespace kvc::conformance {
namespace {

void run_all(const ModelShape& model) {
  const PluginLibrary composed(std::filesystem::path(KVC_BINARY_DIR) / "tests/plugins/composed.so");
  const auto sweep = option_sweep(composed, model);
  EXPECT_EQ(sweep.size(), 12u);
  for (const auto& options : sweep) {
    for (const auto& check : all_checks()) {
      SCOPED_TRACE(concat(options.dump(), " ", check.name));
      for (const auto& complaint : run_check(check, {composed, options, model}).complaints) ADD_FAILURE() << complaint;
    }
  }
}

TEST(Compositions, DoWhatEveryPluginMust) { run_all({2, 4, 2, 64}); }
TEST(Compositions, DoSoWithASlidingWindow) { run_all({2, 4, 1, 32, 45}); }

}  // namespace
}  // namespace kvc::conformance
