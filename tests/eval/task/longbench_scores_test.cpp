// The 21 prediction files of a real model, with the scores that the official script gave them, stored and per example.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "predictions/score_predictions.h"
#include "text/files.h"

namespace kvc {
namespace {

const std::filesystem::path kLongBench = std::filesystem::path(KVC_SOURCE_DIR) / "tasks/longbench";

class LongBench : public testing::Test {
 protected:
  void SetUp() override {
    const char* data_dir = std::getenv("KVC_DATA");
    if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds longbench_preds/";
    folder_ = std::filesystem::path(data_dir) / "longbench_preds/llama2-7b-chat-4k";
    if (!std::filesystem::exists(jieba_folder() / "dict.txt")) GTEST_SKIP() << "no Chinese dictionary: KVC_JIEBA";
  }

  nlohmann::json read_json(const std::string& name) { return nlohmann::json::parse(read_file(folder_ / name)); }

  PredictionScores score(const std::string& name, size_t extractor) {
    const auto spec = load_task(kLongBench / (name + ".yaml"));
    const auto file = folder_ / (name + ".jsonl");
    return score_predictions(spec, spec.extractors.at(extractor), read_predictions(spec, file).samples, file, scorer_);
  }

  void expect_same(const PredictionScores& scores, const nlohmann::json& expected) {
    ASSERT_EQ(scores.samples.size(), expected.size()) << scores.task;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(scores.samples[i].score, expected[i].get<double>(), 1e-9) << scores.task << ", line " << i + 1;
    }
  }

  std::filesystem::path folder_;
  AnswerScorer scorer_;
};

TEST_F(LongBench, StoredScoresAreReproducedToTwoDecimals) {
  const auto stored = read_json("result.json");
  ASSERT_EQ(stored.size(), 21u);
  for (const auto& [name, expected] : stored.items()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", score(name, 0).percent());
    EXPECT_EQ(std::stod(text), expected.get<double>()) << name;
  }
}

// The per-example file has the code sets by Levenshtein, a second one by difflib.
TEST_F(LongBench, EveryExampleHasItsScore) {
  const auto levenshtein = read_json("per_example_scores.json");
  const auto difflib = read_json("per_example_scores_difflib.json");
  ASSERT_EQ(levenshtein.size(), 21u);
  for (const auto& [name, expected] : levenshtein.items()) expect_same(score(name, difflib.contains(name)), expected);
  for (const auto& [name, expected] : difflib.items()) expect_same(score(name, 0), expected);
}

}  // namespace
}  // namespace kvc
