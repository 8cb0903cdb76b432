// GSM8K against the public script: prompts byte by byte, and both extraction rules over 2,638 real texts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "scoring/answer_scorer.h"
#include "task/dataset.h"
#include "text/files.h"
#include "text/jsonl.h"

namespace kvc {
namespace {

class Gsm8k : public testing::Test {
 protected:
  void SetUp() override {
    const char* data_dir = std::getenv("KVC_DATA");
    if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds gsm8k/ and gear_prompts/";
    data_dir_ = data_dir;
    spec_ = load_task(std::filesystem::path(KVC_SOURCE_DIR) / "tasks/gsm8k/cot8.yaml");
    data_ = load_dataset(spec_, data_dir_);
  }
  std::filesystem::path data_dir_;
  TaskSpec spec_;
  Dataset data_;
};

TEST_F(Gsm8k, PromptsAreThePublicScriptsBytes) {
  const auto exemplars = read_file(data_dir_ / "gear_prompts/gsm8k_prompt_original.txt");
  ASSERT_EQ(data_.samples.size(), 1319u);
  size_t i = 0;
  std::string all;
  read_jsonl(data_dir_ / "gsm8k/test.jsonl", [&](int64_t, const nlohmann::json& object) {
    const auto prompt = render_prompt(spec_, data_, data_.samples.at(i++));
    EXPECT_EQ(prompt.text, exemplars + "\nQuestion: " + object["question"].get<std::string>() + "\n");
    EXPECT_EQ(prompt.shared_prefix, exemplars + "\nQuestion: ");
    all += prompt.text;
  });
  // hashlib over the script's own expression: prompt_cot + "\n" + "Question: " + question + "\n".
  EXPECT_EQ(sha256_hex(all), "0b84ed7574b3efd6270c697d143e1a109cc4079c294e14e01c8cb36684e70974");
}

TEST_F(Gsm8k, GoldAnswersAreTheKnownOnes) {
  double sum = 0;
  int n_commas = 0, n_negative = 0;
  for (const auto& sample : data_.samples) {
    n_commas += sample.gold.find(',') != std::string::npos;
    n_negative += sample.gold.starts_with('-');
    sum += std::stod(*gold_answer(spec_.extractors[0], sample.gold));
  }
  EXPECT_EQ(n_commas, 14);
  EXPECT_EQ(n_negative, 2);
  EXPECT_EQ(sum, 9009213);  // Python, by the script's rule: -10 and -3 count as 10 and 3
}

// Each question and each worked answer taken as a generation; the hash and the counts are from Python's re and the
// rules as the public script and lm-evaluation-harness write them.
TEST_F(Gsm8k, BothRulesAgreeWithPython) {
  const auto& gear = spec_.extractors.at(0);
  const auto& flexible = spec_.extractors.at(1);
  std::string lines;
  double n_gear = 0, n_flexible = 0, n_answers = 0;
  AnswerScorer scorer;
  const auto score = [&](const Extractor& extractor, const std::string& text, const std::string& gold) {
    return scorer.score(extractor, extract_answer(extractor, text), {{gold}, {}});
  };
  size_t i = 0;
  read_jsonl(data_dir_ / "gsm8k/test.jsonl", [&](int64_t, const nlohmann::json& object) {
    const auto question = object["question"].get<std::string>(), answer = object["answer"].get<std::string>();
    const auto& gold = data_.samples.at(i++).gold;
    for (const auto& text : {question, answer}) {
      lines += extract_answer(gear, text).value_or("(none)") + "|" + extract_answer(flexible, text).value_or("(none)") +
               "\n";
    }
    n_gear += score(gear, question, gold);
    n_flexible += score(flexible, question, gold);
    n_answers += score(flexible, answer, gold);
  });
  EXPECT_EQ(sha256_hex(lines), "ee9ff95aa6fb8005e56cfd21ab41f80815c986b5989a7875ebd7047f15c802c3");
  EXPECT_EQ(n_gear, 31);
  EXPECT_EQ(n_flexible, 28);
  EXPECT_EQ(n_answers, 1319);
}

}  // namespace
}  // namespace kvc
