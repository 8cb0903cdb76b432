#include "text/nearest.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

using Names = std::vector<std::string>;

// s/t000 ... s/t<n - 1>, and the two names of a suite among them
Names many(int n) {
  Names names;
  for (int i = 0; i < n; ++i) {
    const auto digits = std::to_string(1000 + i).substr(1);
    names.push_back("s/t" + digits);
  }
  names[n / 2] = "lambada/openai";
  names[n / 3] = "lambada/last_token";
  return names;
}

TEST(NearestName, IsFoundInAnotherCase) {
  EXPECT_EQ(nearest_name("KIVI", {"gear", "kivi", "kcvt"}), "kivi");
  EXPECT_EQ(nearest_name("gsm8K/CoT8", {"aqua/cot8", "gsm8k/cot8"}), "gsm8k/cot8");
}

TEST(UnknownName, OfFewNamesAllAreListed) {
  EXPECT_EQ(unknown_name("option", "bit", {"bits", "group_size"}),
            "unknown option 'bit' (did you mean 'bits'?); known: bits, group_size");
  const auto thirty = unknown_name("task", "x/y", many(30));
  EXPECT_NE(thirty.find("; known: s/t000, s/t001, "), std::string::npos) << thirty;
  EXPECT_NE(thirty.find(", s/t029"), std::string::npos) << thirty;
}

// The names of a stranger's file.
TEST(UnknownName, IsOneLineWhateverIsKnown) {
  EXPECT_EQ(unknown_name("field", "a", {"b\n\r", "c"}), "unknown field 'a'; known: b  , c");
}

TEST(UnknownName, OfManyTheNearestAreListedAndTheirNumber) {
  EXPECT_EQ(unknown_name("task", "lambada/opnai", many(300)),
            "unknown task 'lambada/opnai' (did you mean 'lambada/openai'?); 300 are known, the nearest: "
            "lambada/openai, lambada/last_token, s/t000, s/t001, s/t002");
  const auto message = unknown_name("task", std::string(5000, 'x'), many(31));
  EXPECT_LT(message.size(), 200u) << message;
  EXPECT_NE(message.find("31 are known"), std::string::npos) << message;
}

// A suite's name, or a task's without its suite, is far from the whole name by edits.
TEST(NearestNames, APartBetweenSlashesIsNear) {
  const auto names = many(300);
  EXPECT_EQ(nearest_names("lambda", names)[0], "lambada/last_token");  // equally near: in their order
  EXPECT_EQ(nearest_names("lambda", names)[1], "lambada/openai");
  EXPECT_EQ(nearest_names("openai", names)[0], "lambada/openai");
  EXPECT_EQ(nearest_names("s/t123", names), (Names{"s/t123", "s/t023", "s/t103", "s/t113", "s/t120"}));
  EXPECT_EQ(nearest_names("", {}), Names{});
  EXPECT_EQ(nearest_names("a", {"b"}), Names{"b"});
}

TEST(SomeOf, OfManyNamesTheFirstAndTheNumberOfOthers) {
  EXPECT_EQ(some_of({"a", "b"}), "a, b");
  EXPECT_EQ(some_of({}), "");
  EXPECT_EQ(some_of({"a", "b", "c"}, 3), "a, b, c");
  EXPECT_EQ(some_of({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(some_of(many(40)), "s/t000, s/t001, s/t002, s/t003, s/t004 and 35 more");
}

}  // namespace
}  // namespace kvc
