// Every task file of the repository: it loads, and its own extract cases hold.
#include <gtest/gtest.h>

#include <algorithm>

#include "scoring/answer_scorer.h"
#include "support/message_of.h"
#include "task/task_spec.h"

namespace kvc {
namespace {

const std::filesystem::path kTasks = std::filesystem::path(KVC_SOURCE_DIR) / "tasks";

class TaskFiles : public testing::TestWithParam<TaskId> {};

TEST_P(TaskFiles, ExtractCasesHold) {
  const auto spec = load_task(GetParam());
  for (const auto& extractor : spec.extractors) {
    if (extractor.scorer->needs_words && !std::filesystem::exists(jieba_folder() / "dict.txt")) {
      GTEST_SKIP() << "no Chinese dictionary in '" << jieba_folder().string()
                   << "': KVC_JIEBA names the package's folder";
    }
  }
  AnswerScorer scorer;
  for (const auto& c : spec.extract_cases) {
    const auto& extractor = *find_extractor(spec, c.extractor);
    const auto answer = extract_answer(extractor, c.text);
    EXPECT_EQ(answer, c.answer) << c.where;
    EXPECT_NEAR(scorer.score(extractor, answer, c.gold), c.score, 1e-12) << c.where;
  }
}

std::string case_name(const testing::TestParamInfo<TaskId>& info) {
  auto name = info.param.name();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TaskFiles, testing::ValuesIn(find_tasks(kTasks)), case_name);

TEST(Tasks, AreNamedBySuiteAndFile) {
  EXPECT_EQ(find_task(kTasks, "gsm8k/cot8").yaml_file, kTasks / "gsm8k" / "cot8.yaml");
  EXPECT_EQ(load_task(kTasks / "gsm8k" / "cot8.yaml").name, "gsm8k/cot8");
  const auto message = test::message_of([] { find_task(kTasks, "gsm8k/cot"); });
  EXPECT_EQ(message.find("unknown task 'gsm8k/cot' (did you mean 'gsm8k/cot8'?); "), 0u) << message;
  EXPECT_NE(message.find(" are known, the nearest: gsm8k/cot8, "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; `kvc tasks` lists them")) << message;
}

}  // namespace
}  // namespace kvc
