// Choices by likelihood: expected values by hand.
#include "task/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/records.h"
#include "support/message_of.h"

namespace kvc {
namespace {

// Sums -2, -3, -2.5 over 1, 3, 2 tokens and 1, 6, 4 characters: per token -2, -1, -1.25; per character -2, -.5, -.625.
std::vector<ChoiceLikelihood> three() {
  return {{" a", -2, 1, 1, false, -1.0}, {" bcdefg", -3, 3, 6, true, -3.6}, {" hijk", -2.5, 2, 4, false, -0.1}};
}

TEST(Choices, EachRuleChoosesByItsOwnMeasure) {
  EXPECT_EQ(score_choices("acc", three(), 0).value, 1);
  EXPECT_EQ(score_choices("acc", three(), 1).answer, " a");
  EXPECT_EQ(score_choices("acc_norm", three(), 1).value, 1);
  EXPECT_EQ(score_choices("mean_nll", three(), 1).value, 1);
  // Calibrated by token: -1, +0.2, -1.2.
  EXPECT_EQ(score_choices("mean_nll_calibrated", three(), 1).value, 1);
  EXPECT_EQ(score_choices("mean_nll_calibrated", three(), 2).value, 0);
  EXPECT_EQ(score_choices("greedy", three(), 1).value, 1);
  EXPECT_EQ(score_choices("greedy", three(), 0).value, 0);
  EXPECT_EQ(score_choices("log_likelihood", three(), 2).value, -2.5);
}

TEST(Choices, OfEqualLikelihoodsTheFirstWins) {
  auto choices = three();
  choices[2].log_likelihood = -2;
  EXPECT_EQ(score_choices("acc", choices, 0).value, 1);
  EXPECT_EQ(score_choices("acc", choices, 2).value, 0);
}

TEST(Choices, CharactersAreCountedWithoutTheBlankThatJoins) {
  EXPECT_EQ(n_characters(" ab"), 2);
  EXPECT_EQ(n_characters("ab"), 2);
  EXPECT_EQ(n_characters("  ab"), 3);  // the second is the choice's own
  EXPECT_EQ(n_characters(" "), 1);     // never none: sums are divided by it
}

TEST(Choices, SurviveBeingStored) {
  const auto stored = choices_json(three());
  EXPECT_EQ(stored.find('\n'), std::string::npos);
  const auto back = parse_choices_json(stored);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(choices_json(back), stored);
  EXPECT_EQ(back[1].content_free_log_likelihood, -3.6);
  for (const char* bad : {"", "[]", "{}", "[1]", "a generation", R"([{"text": "x"}])"}) {
    EXPECT_THROW(parse_choices_json(bad), Error) << bad;
  }
}

TEST(Choices, TheGoldNamesOneOfThem) {
  ChoiceSpec spec;
  EXPECT_EQ(gold_choice(spec, "2", 3, "f:1"), 2);
  EXPECT_EQ(gold_choice(spec, "anything", 1, "f:1"), 0);
  spec.golds = {"A", "B"};
  EXPECT_EQ(gold_choice(spec, "B", 2, "f:1"), 1);
  EXPECT_EQ(test::message_of([&] { gold_choice(spec, "C", 2, "f:1"); }),
            "f:1:1: error: the gold is 'C', expected one of A, B, and there are 2 choices");
}

TEST(Choices, AnEmptyChoiceIsABadLine) {
  ChoiceSpec spec;
  spec.from = FieldSpec{"options", std::nullopt, std::nullopt};
  spec.before = " ";
  const auto texts = [&](const char* json) { return choice_texts(spec, {}, {nlohmann::json::parse(json), "f:3"}); };
  EXPECT_EQ(texts(R"({"options": ["x", "y z"]})"), (std::vector<std::string>{" x", " y z"}));
  EXPECT_THROW(texts(R"({"options": ["x", ""]})"), Error);
  EXPECT_THROW(texts(R"({"options": ["x"]})"), Error);
  EXPECT_THROW(texts(R"({"options": ["x", null]})"), Error);
  EXPECT_THROW(texts(R"({"option": ["x", "y"]})"), Error);
}

}  // namespace
}  // namespace kvc
