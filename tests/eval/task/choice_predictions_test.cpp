// lm-eval's samples of log-likelihoods: lines made by hand, scores worked out by hand.
#include "predictions/choice_predictions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "support/message_of.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

class ChoicePredictions : public testing::Test {
 protected:
  std::vector<double> scores(const std::string& task, const std::string& score, const std::string& text) {
    folder_.write("t.jsonl", text);
    const auto spec = load_task(find_task(std::filesystem::path(KVC_SOURCE_DIR) / "tasks", task));
    std::vector<double> values;
    for (const auto& sample :
         score_choice_predictions(spec, score, read_predictions(spec, file_).samples, file_).samples) {
      values.push_back(sample.score);
    }
    return values;
  }

  std::string error(const std::string& task, const std::string& text, const std::string& score = "acc") {
    return test::message_of([&] { scores(task, score, text); }).substr(file_.string().size());
  }

  test::TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "t.jsonl";
};

// A line of two choices, " abcde" and " abcdefghijkl" unless said otherwise.
std::string line_of(const std::string& resps, const std::string& rest,
                    const std::string& texts = R"("gen_args_0": {"arg_0": "Q", "arg_1": " abcde"},
"gen_args_1": {"arg_0": "Q", "arg_1": " abcdefghijkl"})") {
  auto line = R"({"doc_id": 0, "resps": )" + resps + R"(, "arguments": {)" + texts + "}, " + rest + "}";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + "\n";
}

// By sum -10 against -12, by character -2 against -1.
const std::string kTwo = R"([[["-10.0", "False"]], [["-12.0", "True"]]])";

TEST_F(ChoicePredictions, SumsAndSumsByCharacterDecideAsTheLineSays) {
  const auto first = line_of(kTwo, R"("target": "0", "acc": 1.0, "acc_norm": 0.0)");
  EXPECT_EQ(scores("piqa/validation", "acc", first), std::vector<double>{1});
  EXPECT_EQ(scores("piqa/validation", "acc_norm", first), std::vector<double>{0});
  const auto second = line_of(kTwo, R"("target": "1", "acc": 0.0, "acc_norm": 1.0)");
  EXPECT_EQ(scores("piqa/validation", "acc", second), std::vector<double>{0});
  EXPECT_EQ(scores("piqa/validation", "acc_norm", second), std::vector<double>{1});
}

TEST_F(ChoicePredictions, ANullLikelihoodIsScoredZeroAndTold) {
  const std::string nulls[] = {"[[[null, false]], [[-12.5, true]]]", "[[[NaN, false]], [[-12.5, true]]]",
                               "[[[\"-10.0\", \"False\"]], [[\"nan\", \"False\"]]]", "[[[-10, true]], null]",
                               "[[null], [[-12.5, true]]]"};
  const auto other = R"({"doc_id": 1, )" + line_of(kTwo, R"("target": 0, "acc": 1.0)").substr(14);
  testing::internal::CaptureStderr();
  EXPECT_EQ(scores("piqa/validation", "acc", line_of(nulls[0], R"("target": 0, "acc": 1.0)") + other),
            (std::vector<double>{0, 1}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("1 of 2 responses is null"), std::string::npos);
  for (const auto& resps : nulls) {
    EXPECT_EQ(scores("piqa/validation", "acc", line_of(resps, R"("target": 0)")), std::vector<double>{0}) << resps;
  }
}

TEST_F(ChoicePredictions, NumbersMayStandBareAndTargetsBeTexts) {
  EXPECT_EQ(scores("piqa/validation", "acc", line_of("[[[-10, false]], [[-12.5, true]]]", R"("target": 0)")),
            std::vector<double>{1});
  EXPECT_EQ(scores("piqa/validation", "acc", line_of("[[-10, false], [-1e1, true]]", R"("target": "abcdefghijkl")")),
            std::vector<double>{0});  // of equal ones the first
  EXPECT_EQ(
      scores("piqa/validation", "acc", line_of(R"([[["-inf", "False"]], [["-1", "False"]]])", R"("target": "1")")),
      std::vector<double>{1});
}

// -6 over 3 and -8 over 5 characters; over 6 and 5 bytes, or with the blank counted, the first would win.
TEST_F(ChoicePredictions, LengthsAreCharactersWithoutTheBlank) {
  const auto line = line_of(R"([[["-6", "False"]], [["-8", "False"]]])", R"("target": "1")",
                            R"("gen_args_0": {"arg_1": " ééé"}, "gen_args_1": {"arg_1": " abcde"})");
  EXPECT_EQ(scores("piqa/validation", "acc_norm", line), std::vector<double>{1});
}

TEST_F(ChoicePredictions, AQuestionIsReadOnceWhateverItsFilters) {
  const auto line = line_of(kTwo, R"("target": "0", "filter": "none")");
  auto other = line_of(kTwo, R"("target": "0", "filter": "other")");
  EXPECT_EQ(scores("piqa/validation", "acc", line + other).size(), 1u);
  other.replace(other.find("0,"), 1, "1");
  EXPECT_EQ(scores("piqa/validation", "acc", line + other).size(), 2u);
}

TEST_F(ChoicePredictions, OneChoiceIsRightWhereItIsGreedy) {
  const auto line = [](const char* greedy) {
    return line_of(concat(R"([[["-3.5", ")", greedy, R"("]]])"),
                   concat(R"("target": " word", "acc": )", *greedy == 'T'), R"("gen_args_0": {"arg_1": " word"})");
  };
  EXPECT_EQ(scores("lambada/openai", "greedy", line("True")), std::vector<double>{1});
  EXPECT_EQ(scores("lambada/openai", "greedy", line("False")), std::vector<double>{0});
}

TEST_F(ChoicePredictions, WhatALineSaysOtherwiseIsRefused) {
  EXPECT_EQ(error("piqa/validation", line_of(kTwo, R"("target": "0", "acc": 0.0)")),
            ":1:1: error: the log-likelihoods give acc 1, but the line says 0: it was scored differently");
  EXPECT_EQ(
      error("lambada/openai",
            line_of(R"([[["-3.5", "True"]]])", R"("target": " word", "acc": 0)", R"("gen_args_0": {"arg_1": " word"})"),
            "greedy"),
      ":1:1: error: the log-likelihoods give greedy 1, but the line says 0: it was scored differently");
}

TEST_F(ChoicePredictions, BadLinesAreRefusedInOneLine) {
  const auto target = R"("target": "0")";
  const struct {
    std::string text, message;
  } cases[] = {
      {R"({"doc_id": 0, "generation": "a", "gold": "0"})",
       "the task chooses by likelihoods: expected lm-eval's samples of log-likelihoods, with 'resps'"},
      {line_of("3", target), "field 'resps' is number, expected one entry per choice"},
      {line_of(R"([["It is 5"]])", target), "field 'resps' has 1 entries, the task 2 choices"},
      {line_of(R"([["a"], ["b"]])", target),
       R"(field 'resps' has '["a"]' of choice 0, expected [[log-likelihood, is greedy]], as [["-1.25", "False"]])"},
      {line_of(R"([[["-1", "False"]], [["none", "False"]]])", target),
       R"(field 'resps' has '[["none","False"]]' of choice 1, expected [[log-likelihood, is greedy]], as [["-1.25", "False"]])"},
      {line_of(kTwo, target, R"("gen_args_0": {"arg_1": " a"})"),
       "field 'arguments' has no gen_args_1.arg_1, the text of choice 1"},
      {line_of(kTwo, R"("target": "2")"),
       "field 'target' is '2', expected the text of a choice, or its number from 0 to 1"},
      {line_of(kTwo, R"("target": "7")", R"("gen_args_0": {"arg_1": " 7"}, "gen_args_1": {"arg_1": " 8"})"),
       "field 'target' is '7', expected the text of a choice, or its number from 0 to 1"},  // digits are a number
      {line_of(kTwo, R"("target": "[0, 1]")"),
       "field 'target' is '[0, 1]', expected the text of a choice, or its number from 0 to 1"},
      {line_of(kTwo, R"("target": "")"),
       "field 'target' is '', expected the text of a choice, or its number from 0 to 1"},
      {line_of(kTwo, R"("target": "0", "acc_mutual_info": 1.0)"),
       "acc_mutual_info is not supported: half of 'resps' are unconditional"},
      {line_of(kTwo, R"("x": 1)"), "missing field 'target'; the line has: arguments, doc_id, resps, x"},
  };
  for (const auto& c : cases) EXPECT_EQ(error("piqa/validation", c.text), ":1:1: error: " + c.message);
}

TEST_F(ChoicePredictions, ScoresByTokenNeedWhatTheLinesDoNotSay) {
  ChoiceSpec spec;
  spec.scores = {"acc", "acc_norm", "mean_nll", "mean_nll_calibrated", "greedy", "log_likelihood"};
  EXPECT_EQ(scores_of_likelihoods(spec), (std::vector<std::string>{"acc", "acc_norm", "greedy"}));
}

}  // namespace
}  // namespace kvc
