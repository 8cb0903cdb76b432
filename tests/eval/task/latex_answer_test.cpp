// Answers in LaTeX: which are the same, which are not, and what is in a box.
#include "scoring/latex_answer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "scoring/extractor.h"
#include "scoring/gold.h"
#include "support/message_of.h"
#include "text/files.h"
#include "text/yaml_read.h"

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
    EXPECT_EQ(same(a, b), 1) << a << " | " << b;
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
    EXPECT_EQ(same(a, b), 0) << a << " | " << b;
  }
}

// tests/data/latex_pairs.yaml: each rule's own pairs, and the neighbours that it must not take in.
TEST(LatexAnswer, PairsOfEachRuleAreJudgedAsIntended) {
  auto map = load_yaml(std::filesystem::path(KVC_TEST_DATA) / "latex_pairs.yaml").map();
  for (const char* kind : {"same", "other"}) {
    const double expected = kind == std::string("same") ? 1 : 0;
    for (const auto& item : map.required(kind).sequence()) {
      const auto pair = item.strings();
      EXPECT_EQ(same(pair.at(0), pair.at(1)), expected) << item.where() << ": " << pair[0] << " | " << pair[1];
      EXPECT_EQ(same(pair[1], pair[0]), expected) << item.where() << ": " << pair[1] << " | " << pair[0];
    }
  }
}

TEST(LatexAnswer, ReportedPairsAreJudgedAsIntended) {
  const char* shared = std::getenv("KVC_SHARED");
  const auto file = std::filesystem::path(shared ? shared : "") / "cases/math_pairs.json";
  if (!shared || !std::filesystem::exists(file))
    GTEST_SKIP() << "KVC_SHARED names no folder with cases/math_pairs.json";
  for (const auto& pair : nlohmann::json::parse(read_file(file))) {
    if (pair.value("algebra", false)) continue;
    EXPECT_EQ(same(pair.at("answer"), pair.at("gold")), pair.at("equal") ? 1 : 0) << pair;
  }
}

// Bytes that no model writes: an answer in linear time, and each answer is its own.
TEST(LatexAnswer, HostileTextIsComparedInLinearTime) {
  const std::string pieces[] = {"\\",
                                "{",
                                "}",
                                "\\frac",
                                "\\frac{",
                                "\\sqrt",
                                "\\sqrt[",
                                "x^",
                                "x^{",
                                "1/",
                                "1/(",
                                "(",
                                "1,",
                                "100,",
                                "100 ",
                                "\\text{",
                                "\\text{a} ",
                                "\\boxed{",
                                "$",
                                "-",
                                "\xff",
                                "\\begin{pmatrix}",
                                "\\over ",
                                "a",
                                "and ",
                                "x=",
                                "1e",
                                "\\bar",
                                "'",
                                "\\dots",
                                "½",
                                "²",
                                "\\\\",
                                ".",
                                "\\left.",
                                "^\\circ",
                                "{1\\over ",
                                "5\\text{cm}",
                                "\\frac{-1}{2}",
                                "1\\text{ or }"};
  for (const auto& piece : pieces) {
    std::string text;
    while (text.size() < 30'000) text += piece;
    EXPECT_EQ(same(text, text), 1) << piece;
    EXPECT_EQ(same(text + "1", text + "2"), 0) << piece;
    EXPECT_EQ(boxed(text, true).has_value(), false) << piece;
  }
  const std::string open(50'000, '{'), close(50'000, '}');
  EXPECT_EQ(same(open + "x" + close, open + " x" + close), 1);  // too deep: as text
  EXPECT_EQ(same("\\frac{1}{2", "\\frac{1}{ 2"), 1);
  EXPECT_EQ(same("\\frac{1}{2", "\\frac{1}{2}"), 0);
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
