// Scorers against values worked by hand; text_scores_parity.py holds them against the public packages.
#include "scoring/scorers.h"

#include <gtest/gtest.h>

#include "kvc/check.h"
#include "scoring/answer_scorer.h"
#include "scoring/edit_similarity.h"
#include "scoring/rouge.h"

namespace kvc {
namespace {

double score(const std::string& scorer, const std::string& answer, const std::string& gold,
             const std::vector<std::string>& classes = {}) {
  return find_scorer(scorer)->score({answer, gold, classes, nullptr});
}

TEST(Scorers, F1CountsSharedWordsWithTheirMultiplicity) {
  EXPECT_EQ(score("f1", "one one two", "one two two"), 2.0 / 3);  // 2 shared of 3 and 3
  EXPECT_EQ(score("f1", "The A.B!", "ab"), 1);                    // marks go before articles
  EXPECT_EQ(score("f1", "the", "a"), 0);                          // nothing is left, nothing in common
  EXPECT_EQ(score("f1", "An owl", "owl"), 1);
  EXPECT_EQ(score("f1", "", ""), 0);
  EXPECT_EQ(score("f1", "\xE2\x80\x9Crome\xE2\x80\x9D", "rome"), 0);  // other than ASCII marks stay
  EXPECT_EQ(score("f1", "anthem", "them"), 0);                        // an article is a whole word
  EXPECT_EQ(score("f1",
                  "a\xE2\x80\x99"
                  "b",
                  " \xE2\x80\x99"
                  "b"),
            1);  // between an apostrophe and the start, too
}

TEST(Scorers, RougeTakesSetsOfWords) {
  // Words 5 and 5, shared the, cat, on, mat: p = r = 4/5.
  EXPECT_NEAR(score("rouge_l", "the cat sat on the mat", "the cat is on the mat"), 0.8, 1e-8);
  EXPECT_EQ(score("rouge_l", "", "a"), 0);
  EXPECT_EQ(score("rouge_l", "...", "a"), 0);
  EXPECT_NEAR(score("rouge_l", " ", " . "), 1, 1e-8);  // a blank sentence is the empty word
  EXPECT_NEAR(score("rouge_l", "x y", "y x"), 0.5, 1e-8);
  // Of "b" and "a" in "b a" the one that stands first in it is common: with the second sentence still b alone.
  EXPECT_NEAR(score("rouge_l", "b a.b", "a b"), 0.5, 1e-8);
}

TEST(Scorers, RougeGivesUpWherePythonDoes) {
  const std::u32string gold = U"a b";
  std::u32string answer = U"a";
  for (int i = 0; i < 988; ++i) answer += U" x";  // 990 steps back: 991 calls
  EXPECT_GT(rouge_l(answer, gold, 991), 0);
  EXPECT_EQ(rouge_l(answer, gold, 990), 0);
}

TEST(Scorers, EditSimilarityIsInWholePercents) {
  EXPECT_EQ(score("edit_similarity", "abcd", "bcde"), 0.75);  // difflib's own example: 2 * 3 / 8
  EXPECT_EQ(score("edit_similarity", "", ""), 1);
  EXPECT_EQ(score("edit_similarity", "", "a"), 0);
  EXPECT_EQ(score("edit_similarity", "abcdefgh", "aijklmno"), 0.12);  // 2 / 16 is 12.5 %: half to even
  EXPECT_EQ(score("edit_similarity", "abc",
                  "a\xC3\xA9"
                  "c"),
            0.67);                                                             // code points, not bytes: 2 * 2 / 6
  EXPECT_EQ(score("edit_similarity_levenshtein", "kitten", "sitting"), 0.62);  // LCS ittn: 8 / 13
  EXPECT_NEAR(difflib_ratio(U"tide", U"diet"), 0.25, 1e-15);  // not symmetric: the documentation of difflib
  EXPECT_NEAR(difflib_ratio(U"diet", U"tide"), 0.5, 1e-15);
  EXPECT_NEAR(difflib_ratio(U"a-c", U"a+c+a"), 0.5, 1e-15);  // the first a, so that the c is still to come
}

// From 200 characters on one that stands in more than n / 100 + 1 places starts no match (Python's difflib).
TEST(Scorers, EditSimilarityLeavesPopularCharactersOut) {
  std::u32string text;
  for (char32_t c = 0; c < 197; ++c) text += U'\u4E00' + c;
  EXPECT_NEAR(difflib_ratio(U"x", text + U"xxx"), 2.0 / 201, 1e-15);
  EXPECT_EQ(difflib_ratio(U"x", text.substr(1) + U"xxxx"), 0);
}

TEST(Scorers, ClassesShareThePoint) {
  const std::vector<std::string> classes = {"City", "Country", "Other", "Other location"};
  EXPECT_EQ(score("classification", "City", "City", classes), 1);
  EXPECT_EQ(score("classification", "City or Country", "City", classes), 0.5);
  EXPECT_EQ(score("classification", "Other location", "Other location", classes), 1);  // a part of the gold's name goes
  EXPECT_EQ(score("classification", "city", "City", classes), 0);
  // The name after a struck one is skipped: of "ab", "b", "abc" the second stays.
  EXPECT_EQ(score("classification", "abc", "abc", {"ab", "b", "abc"}), 0.5);
}

TEST(Scorers, NumbersAreComparedAsText) {
  EXPECT_EQ(score("number_precision", "3 of 12", "3"), 0.5);
  EXPECT_EQ(score("number_precision", "none", "3"), 0);
  EXPECT_EQ(score("number_precision", "03", "3"), 0);
  EXPECT_EQ(score("number_precision", "\xEF\xBC\x93", "\xEF\xBC\x93"), 1);  // a full-width 3
  EXPECT_EQ(score("number", "\xEF\xBC\x93", "3"), 1);
  EXPECT_EQ(score("number", "0." + std::string(400, '0') + "1", "0"), 1);  // float() of it is 0.0
  EXPECT_EQ(score("number", std::string(400, '9'), "9"), 0);
}

TEST(Scorers, AnOptionIsMentionedByTextOrByLetter) {
  const std::vector<std::string> options = {"A)5", "B)15", "C)20", "D)25"};
  EXPECT_EQ(score("option_mention", "B).", "B", options), 1);
  EXPECT_EQ(score("option_mention", "B.", "B", options), 0);
  EXPECT_EQ(score("option_mention", "it is 15", "B", options), 1);
  EXPECT_EQ(score("option_mention", "it is 15", "A", options), 1);  // the gold's text is part of another's
  EXPECT_EQ(score("option_mention", "A) B) C) D)", "B", options), 0);
  EXPECT_EQ(score("option_mention", "A) B) C)", "B", options), 1);              // not all are named
  EXPECT_EQ(score("option_mention", "15", "B", {"A)as B) or C)", "B)15"}), 1);  // the text behind the last label
}

TEST(Scorers, TheBestGoldCounts) {
  const auto extractor = read_extractor(parse_yaml("x.yaml", "{name: x, steps: [], compare: f1}"));
  EXPECT_EQ(AnswerScorer().score(extractor, "b", {{"a b", "b", "c"}, {}}), 1);
  EXPECT_EQ(AnswerScorer().score(extractor, std::nullopt, {{""}, {}}), 0);
}

TEST(ChineseWords, AMissingDictionaryIsNamedWithTheCommandThatInstallsIt) {
  try {
    ChineseWords("/nowhere/jieba");
    FAIL();
  } catch (const EnvironmentError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("/nowhere/jieba/dict.txt"), std::string::npos) << what;
    EXPECT_NE(what.find("./kvc setup"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace kvc
