// Answers in LaTeX: which are the same, which are not, and what is in a box.
#include "scoring/latex_answer.h"

#include <gtest/gtest.h>

#include "scoring/extractor.h"
#include "scoring/gold.h"
#include "support/message_of.h"

namespace kvc {
namespace {

double same(const std::string& answer, const std::string& gold) {
  const std::vector<std::string> none;
  return find_scorer("latex")->score({answer, gold, none, nullptr});
}

// Pairs of the kind that MATH's own comparison (math_equivalence's test) is tried with, and those that it misses.
TEST(LatexAnswer, IsTheSameInAnotherWriting) {
  const std::pair<const char*, const char*> pairs[] = {
      {"\\dfrac{14}{3}", "\\frac{14}{3}"},
      {"\\tfrac143", "\\frac{1}{4}3"},
      {"14/3", "\\frac{14}{3}"},
      {"-\\frac12", "-\\frac{1}{2}"},
      {"-1/2", "-\\frac{1}{2}"},
      {"\\frac1{72}", "\\frac{1}{72}"},
      {"\\frac{1}2", "\\frac{1}{2}"},
      {"11\\sqrt2", "11\\sqrt{2}"},
      {"\\left(3, \\frac{\\pi}{2}\\right)", "(3,\\frac{\\pi}{2})"},
      {"\\left[-2,7\\right]", "x \\in [-2,7]"},
      {"90^\\circ", "90"},
      {"90^{\\circ}", "90^\\circ"},
      {"10\\%", "10"},
      {"\\$32,348", "32348"},
      {"5.4 \\text{ cents}", "5.4"},
      {"\\text{(C)}", "(C)"},
      {"C", "\\text{C}"},
      {"x=5", "5"},
      {".5", "0.5"},
      {"0.5", "\\frac{1}{2}"},
      {"1.50", "1.5"},
      {"1{,}000", "1{,}000"},
      {"2\\,000", "2000"},
      {"3.", "3"},
      {"$7$", "7"},
      {"\\(7\\)", "7"},
      {"\\{1, 2\\}", "\\{1,2\\}"},
      {"6 - 5i", "6-5i"},
  };
  for (const auto& [a, b] : pairs) {
    EXPECT_EQ(same(a, b), 1) << a << " | " << b << ": " << normal_latex(a) << " | " << normal_latex(b);
    EXPECT_EQ(same(b, a), 1) << b << " | " << a;
  }
}

TEST(LatexAnswer, OtherAnswersAreOthers) {
  const std::pair<const char*, const char*> pairs[] = {
      {"12", "1,2"},
      {"(1,234)", "(1,235)"},
      {"\\frac{1}{3}", "\\frac{3}{1}"},
      {"-5", "5"},
      {"\\sqrt{23}", "\\sqrt23"},
      {"x+1", "1+x"},
      {"", ""},
      {"90", "90.5"},
      {"[1,2)", "(1,2)"},
      {"\\text{odd}", "\\text{even}"},
      {"1/2/3", "\\frac{1}{2}"},
      {"a = b = 5", "5"},
  };
  for (const auto& [a, b] : pairs) {
    EXPECT_EQ(same(a, b), 0) << a << " | " << b << ": " << normal_latex(a) << " | " << normal_latex(b);
  }
}

TEST(LatexAnswer, ABoxEndsWhereItsBracesAreEven) {
  EXPECT_EQ(boxed("\\boxed{a{b}c} \\fbox{\\{}", false), "a{b}c");
  EXPECT_EQ(boxed("\\boxed{a{b}c} \\fbox{\\{}", true), "\\{");
  EXPECT_EQ(boxed("\\boxed{1} \\boxed{2", true), "1");
  EXPECT_EQ(boxed("\\boxed {1}", true), "1");
  EXPECT_EQ(boxed("\\boxed{\\boxed{1}}", true), "\\boxed{1}");
  EXPECT_EQ(boxed("\\boxed 1", true), std::nullopt);
  EXPECT_EQ(boxed("\\boxed{1\\", true), std::nullopt);
  EXPECT_EQ(boxed("", true), std::nullopt);
  EXPECT_EQ(boxed(std::string(1'000'000, '{'), true), std::nullopt);
}

Extractor extractor(const std::string& steps) {
  return read_extractor(parse_yaml("x.yaml", "{name: e, steps: [" + steps + "], compare: exact}"));
}

TEST(ExtractSteps, ThoughtsAreCutHoweverTheyBeginAndEnd) {
  const auto cut = [](const std::string& text) {
    return extract_answer(extractor("{without_spans: [\"<think>\", \"</think>\"]}"), text);
  };
  EXPECT_EQ(cut("<think>a</think>b"), "b");
  EXPECT_EQ(cut("a<think>b</think>c<think>d</think>e"), "ace");
  EXPECT_EQ(cut("thought</think>b"), "b");
  EXPECT_EQ(cut("a<think>unfinished"), "a");
  EXPECT_EQ(cut("<think>a</think>b<think>c"), "b");
  EXPECT_EQ(cut("<think>a</think>b</think>c"), "c");
  EXPECT_EQ(cut("no thoughts"), "no thoughts");
  EXPECT_EQ(cut(""), "");
  EXPECT_EQ(cut("<think><think>a</think>b"), "b");
}

TEST(ExtractSteps, ReplacementsNameGroups) {
  const auto replaced = [](const std::string& step, const std::string& text) {
    return extract_answer(extractor("{replace: " + step + "}"), text);
  };
  EXPECT_EQ(replaced("{pattern: '(a)(b)?', by: '[$2$1$$]'}", "ab a"), "[ba$] [a$]");
  EXPECT_EQ(replaced("{pattern: 'x*', by: '-'}", "axb"), "-a--b-");  // as Python's re.sub
  EXPECT_EQ(replaced("{pattern: 'é', by: ''}",
                     "é\xff"
                     "é"),
            "\xff");
  const auto message = test::message_of([] { extractor("{replace: {pattern: 'a', by: '$1'}}"); });
  EXPECT_NE(message.find("expected $$, or $0 to $0, after each $"), std::string::npos) << message;
  EXPECT_NE(test::message_of([] { extractor("{without_spans: [a]}"); }).find("has 1 texts, expected two"),
            std::string::npos);
}

}  // namespace
}  // namespace kvc
