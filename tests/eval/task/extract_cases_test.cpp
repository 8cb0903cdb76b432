// Every task file of the repository: it loads, and its own extract cases hold.
#include <gtest/gtest.h>

#include <algorithm>

#include "scoring/answer_scorer.h"
#include "support/message_of.h"
#include "support/places.h"
#include "task/task_spec.h"
#include "text/utf8.h"

namespace kvc {
namespace {

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

// What every extractor would read of a text that was generated past a stop string is what it reads of the text.
TEST_P(TaskFiles, TextAfterAStopStringChangesNoAnswer) {
  const auto spec = load_task(GetParam());
  for (const auto& c : spec.extract_cases) {
    const auto& extractor = *find_extractor(spec, c.extractor);
    for (const auto& stop : spec.stop) {
      if (extractor.reads_stops && (c.text.empty() || c.text.starts_with(stop)))
        continue;  // its rule for these is its own
      const auto longer = c.text + stop + " no.\n\nSo the answer is (B).\n#### 99\nThe answer is B). 98.\n";
      EXPECT_EQ(extract_answer(extractor, scored_text(spec, extractor, longer)),
                extract_answer(extractor, scored_text(spec, extractor, c.text)))
          << c.where << ", stop string '" << stop << "'";
    }
  }
}

// The texts before which a pipeline cuts wherever they are. None of a text that leading parts are dropped of: its
// beginning is read on.
std::vector<std::string> cuts_of(const std::vector<ExtractStep>& steps) {
  std::vector<std::string> cuts;
  for (const auto& step : steps) {
    if (step.kind == ExtractStep::Kind::kDropLeading) break;
    const bool is_first = &step == &steps.front();
    const bool cuts_off =
        step.kind == ExtractStep::Kind::kCutBefore || (is_first && step.kind == ExtractStep::Kind::kBeforeFirst);
    if (cuts_off) cuts.push_back(step.text);
  }
  return cuts;
}

bool holds_one(const std::string& text, const std::vector<std::string>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return text.find(part) != std::string::npos; });
}

TEST_P(TaskFiles, NoTokensAreDecodedThatNoExtractorReads) {
  const auto spec = load_task(GetParam());
  if (spec.extractors.empty()) return;
  for (const auto& cut : cuts_of(spec.extractors[0].steps)) {
    const bool all_cut = std::all_of(spec.extractors.begin(), spec.extractors.end(),
                                     [&](const auto& extractor) { return holds_one(cut, cuts_of(extractor.steps)); });
    EXPECT_TRUE(!all_cut || holds_one(cut, spec.stop))
        << "every extractor cuts before " << in_quotes(cut) << ", and no stop string ends the generation there";
  }
}

std::string case_name(const testing::TestParamInfo<TaskId>& info) {
  auto name = info.param.name();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, TaskFiles, testing::ValuesIn(find_tasks(test::kTasks)), case_name);

TEST(Tasks, AreNamedBySuiteAndFile) {
  EXPECT_EQ(find_task(test::kTasks, "gsm8k/cot8").yaml_file, test::kTasks / "gsm8k" / "cot8.yaml");
  EXPECT_EQ(load_task(test::kTasks / "gsm8k" / "cot8.yaml").name, "gsm8k/cot8");
  const auto message = test::message_of([] { find_task(test::kTasks, "gsm8k/cot"); });
  EXPECT_EQ(message.find("unknown task 'gsm8k/cot' (did you mean 'gsm8k/cot8'?); "), 0u) << message;
  EXPECT_NE(message.find(" are known, the nearest: gsm8k/cot8, "), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("; `kvc tasks` lists them")) << message;
}

}  // namespace
}  // namespace kvc
