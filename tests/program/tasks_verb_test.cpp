// `kvc tasks` on a data folder of the test's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "support/program.h"

namespace kvc::test {
namespace {

class TasksVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* data = std::getenv("KVC_DATA")) before_ = data;
    ::unsetenv("KVC_DATA");
  }
  void TearDown() override { before_ ? ::setenv("KVC_DATA", before_->c_str(), 1) : ::unsetenv("KVC_DATA"); }
  Finished tasks(std::vector<std::string> names = {}) {
    names.insert(names.begin(), "tasks");
    return run_program(folder, names);
  }
  static int64_t n_lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }
  static int64_t n_of(const std::string& text, const std::string& what) {
    int64_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
    return n;
  }

  TempFolder folder;
  std::optional<std::string> before_;
};

TEST_F(TasksVerb, GroupsBySuiteAndMarksWhatRunsWithoutAnyData) {
  const auto listed = tasks();
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_NE(
      listed.out.find("\ndemo            6 of 6      +arithmetic +lookup +lookup_asked +lookup_long +swaps +truth\n"),
      std::string::npos)
      << listed.out;
  EXPECT_NE(listed.out.find("\naqua            0 of 2      -chat0 -cot8\n"), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("-five_shot/* (57) -zero_shot/* (57)\n"), std::string::npos) << listed.out;
  EXPECT_EQ(n_of(listed.out, "KVC_DATA is not set"), 1) << listed.out;
  EXPECT_LT(n_lines(listed.out), 50) << listed.out;
}

TEST_F(TasksVerb, TakesAPatternAndNamesTheNearestWhereItFitsNone) {
  const auto listed = tasks({"demo/l*"});
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_NE(listed.out.find("+ demo/lookup "), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("+ demo/lookup_long "), std::string::npos) << listed.out;
  EXPECT_EQ(n_of(listed.out, "demo/"), 3) << listed.out;
  const auto none = tasks({"dmeo/*"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(n_lines(none.err), 1) << none.err;
  EXPECT_NE(none.err.find("unknown task 'dmeo/*'"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("demo/"), std::string::npos) << none.err;
}

TEST_F(TasksVerb, SaysOncePerSuiteWhatIsMissingAndHowItIsGot) {
  folder.write("data/gsm8k/test.jsonl", "");
  folder.write("data/piqa/dev.jsonl", "");
  ::setenv("KVC_DATA", (folder / "data").c_str(), 1);
  const auto listed = tasks();
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_NE(listed.out.find("\ngsm8k           1 of 3      +chat0 -cot8 -shot5\n"), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("\n  gsm8k: gear_prompts/gsm8k_prompt_original.txt, gsm8k/train.jsonl\n"
                            "      kvc data gsm8k --fetch\n"),
            std::string::npos)
      << listed.out;
  EXPECT_NE(listed.out.find("\n  piqa: piqa/dev-labels.lst\n"), std::string::npos) << listed.out;
  EXPECT_EQ(n_of(listed.out, "\n  mmlu: "), 1) << listed.out;
  EXPECT_NE(listed.out.find(" more\n      kvc data mmlu"), std::string::npos) << listed.out;  // not 114 files
}

TEST_F(TasksVerb, OfASuiteOrATaskHasALineForEach) {
  const auto demo = tasks({"demo"});
  EXPECT_EQ(demo.exit_code, 0);
  EXPECT_EQ(n_lines(demo.out), 6) << demo.out;
  EXPECT_EQ(n_of(demo.out, " samples)\n"), 6) << demo.out;
  const auto two = tasks({"gsm8k/cot8", "mmlu/five_shot/anatomy"});
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_EQ(two.out.find("- gsm8k/cot8 "), 0u) << two.out;
  EXPECT_NE(two.out.find("\n- mmlu/five_shot/anatomy "), std::string::npos) << two.out;
  EXPECT_EQ(n_of(two.out, "KVC_DATA is not set"), 1) << two.out;
  const auto unknown = tasks({"gsm8k/cot9"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(n_lines(unknown.err), 1) << unknown.err;
  EXPECT_NE(unknown.err.find("(did you mean 'gsm8k/cot8'?)"), std::string::npos) << unknown.err;
}

TEST_F(TasksVerb, DataThatIsThereAndBadIsNamedWhereTheTaskIsAskedFor) {
  folder.write("data/lambada/lambada_test.jsonl", "{\"text\": 7}\n");
  ::setenv("KVC_DATA", (folder / "data").c_str(), 1);
  const auto listed = tasks({"lambada/openai"});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_NE(listed.out.find("no data: "), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("lambada_test.jsonl:1:1: error: "), std::string::npos) << listed.out;
}

}  // namespace
}  // namespace kvc::test
