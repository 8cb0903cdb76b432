// kvc budget: which rows fit, which are on the front, and the program on the embedded model.
#include "check/budget.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

BudgetRow row(double weights, double kv, double kl) {
  BudgetRow made;
  made.weights_bytes = weights, made.kv_bytes = kv, made.kl = kl;
  return made;
}

TEST(Budget, RecommendsTheLowestKlThatFits) {
  BudgetReport report;
  report.memory_bytes = 100;
  report.rows = {row(80, 40, 0), row(80, 20, 0.01), row(40, 40, 0.05), row(40, 20, 0.08), row(60, 20, 0.2)};
  rank_budget(report);
  EXPECT_EQ(report.recommended, 3);
  EXPECT_EQ(report.rows[3].bytes(), 100);
  std::vector<bool> front, fits;
  for (const auto& of : report.rows) front.push_back(of.is_on_front), fits.push_back(of.fits);
  EXPECT_EQ(front, (std::vector<bool>{true, true, false, true, true}));  // 60, 80, 80, 100, 120 bytes
  EXPECT_EQ(fits, (std::vector<bool>{true, true, true, true, false}));
  report.memory_bytes = 59;
  rank_budget(report);
  EXPECT_EQ(report.recommended, -1);
}

class BudgetRun : public testing::Test {
 protected:
  BudgetRun() {
    std::filesystem::copy(std::filesystem::path(KVC_SOURCE_DIR) / "models/demo", folder_ / "copy",
                          std::filesystem::copy_options::recursive);
    folder_.write("t.txt", read_file(std::filesystem::path(KVC_SOURCE_DIR) / "tasks/demo/data/swaps.jsonl"));
  }
  test::Finished budget(std::vector<std::string> more) {
    more.insert(more.begin(), {"budget", "models/demo", (folder_ / "copy").string(), "--text",
                               (folder_ / "t.txt").string(), "--set", "limit=2", "--set", "check.context=256"});
    return run_program(folder_, more);
  }
  TempFolder folder_;
};

TEST_F(BudgetRun, ComparesEveryModelWithEveryCacheType) {
  const auto done = budget({"--memory", "500MB", "--context", "1000", "--format", "json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto rows = nlohmann::json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 8u);
  int n_exact = 0;
  for (const auto& of : rows) {
    EXPECT_EQ(of["KL [nats]"].get<double>() == 0, of["cache"] == "f16") << of;  // the copy's logits are the same
    EXPECT_NEAR(of["sum [MiB]"].get<double>(),
                of["weights [MiB]"].get<double>() + of["KV at 1000 tokens [MiB]"].get<double>(), 1e-6);
    if (of["cache"] != "f16") continue;
    ++n_exact;
    EXPECT_NEAR(of["KV at 1000 tokens [MiB]"].get<double>(), 1000 * 2048 / 1048576., 1e-6);  // 4 layers, 2 heads of 64
  }
  EXPECT_EQ(n_exact, 2);
}

TEST_F(BudgetRun, SaysWhatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const auto done = budget(arguments);
    EXPECT_EQ(done.exit_code, 2) << done.err;
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
  };
  refused({"--memory", "much", "--context", "1000"}, "--memory 'much': expected a size such as 6GiB or 500MB");
  refused({"--memory", "1GiB", "--context", "5000"}, "--context 5000: the context of models/demo has 4096 tokens");
}

}  // namespace
}  // namespace kvc
