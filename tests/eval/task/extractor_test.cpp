#include "scoring/extractor.h"

#include <gtest/gtest.h>

#include "scoring/answer_scorer.h"
#include "support/message_of.h"
#include "support/processor_seconds.h"

namespace kvc {
namespace {

Extractor extractor(const std::string& steps, const std::string& compare = "exact") {
  return read_extractor(parse_yaml("x.yaml", "{name: x, steps: [" + steps + "], compare: " + compare + "}"));
}

std::string extracted(const std::string& steps, const std::string& text) {
  return extract_answer(extractor(steps), text).value_or("(no answer)");
}

double score_answer(const Extractor& x, const std::optional<std::string>& answer, const std::string& gold) {
  return AnswerScorer().score(x, answer, {{gold}, {}});
}

TEST(Extractor, StepsDoWhatTheirNamesSay) {
  EXPECT_EQ(extracted("{cut_before: ab}", "xabyabz"), "x");
  EXPECT_EQ(extracted("{cut_before: ab}", "xyz"), "xyz");
  EXPECT_EQ(extracted("{before_first: ab}", "xabyabz"), "x");
  EXPECT_EQ(extracted("{before_first: ab}", "xyz"), "(no answer)");
  EXPECT_EQ(extracted("{after_first: ab}", "xabyabz"), "yabz");
  EXPECT_EQ(extracted("{after_first: ab}", "xyz"), "(no answer)");
  EXPECT_EQ(extracted("{after_last: ab}", "xabyabz"), "z");
  EXPECT_EQ(extracted("{after_last: ab}", "xyz"), "(no answer)");
  EXPECT_EQ(extracted("{delete: ','}", ",1,,2,"), "12");
  EXPECT_EQ(extracted("{drop_final: '.'}", "1.."), "1.");
  EXPECT_EQ(extracted("{drop_final: '.'}", "1"), "1");
  EXPECT_EQ(extracted("{drop_leading: ab}", "ababxab"), "xab");
  EXPECT_EQ(extracted("{drop_trailing: '.'}", "a.b..."), "a.b");
  EXPECT_EQ(extracted("{drop_trailing: '.'}", "..."), "");
  EXPECT_EQ(extracted("{first_line_without: ['#', '//']}", "# a\nb // c\n\n d"), "");
  EXPECT_EQ(extracted("{first_line_without: ['#', '//']}", "# a\n  b\nc"), "  b");
  EXPECT_EQ(extracted("{first_line_without: ['#']}", "#"), "");
  EXPECT_EQ(extracted("{first_listed: [b, a, c]}", "c a"), "a");
  EXPECT_EQ(extracted("{first_listed: [x]}", "c a"), "(no answer)");
  EXPECT_EQ(extracted("{any_of: [[{after_first: x}], [{after_first: y}]]}", "y 1 x 2"), " 2");
  EXPECT_EQ(extracted("{any_of: [[{after_first: x}], [{after_first: y}]]}, strip", "y 1"), "1");
  EXPECT_EQ(extracted("{any_of: [[{after_first: x}], []]}", "abc"), "abc");
  EXPECT_EQ(extracted("{any_of: [[{after_first: x}]]}", "abc"), "(no answer)");
  EXPECT_EQ(extracted("strip", " \t\n\xE3\x80\x80 a b\xC2\xA0\xE2\x80\xA8"), "a b");
  EXPECT_EQ(extracted("strip", " \n"), "");
  EXPECT_EQ(extracted("strip", " a\xC3"), "a\xC3");  // a character that the token limit cut
  EXPECT_EQ(extracted("lower", "ABC \xC3\x84\xCE\xA3"), "abc \xC3\xA4\xCF\x82");  // a final sigma, as in Python
  EXPECT_EQ(extracted("{after_last: is}, {before_first: '.'}, strip", "it is 4. so"), "4");
}

TEST(Extractor, PatternsTakeTheFirstOrTheLastMatch) {
  EXPECT_EQ(extracted("{regex: '[0-9]+'}", "a 12 b 34"), "12");
  EXPECT_EQ(extracted("{regex: {pattern: '[0-9]+', which: last}}", "a 12 b 34"), "34");
  EXPECT_EQ(extracted("{regex: {pattern: '([a-z]) ([0-9]+)', group: 2, which: last}}", "a 12 b 34"), "34");
  EXPECT_EQ(extracted("{regex: '[0-9]+'}", "none"), "(no answer)");
  EXPECT_EQ(extracted("{regex: '\\d+'}", "x \xD9\xA1\xD9\xA2"), "\xD9\xA1\xD9\xA2");  // Arabic digits, as in Python
  EXPECT_EQ(extracted("{regex: {pattern: '(a)|b', group: 1, which: last}}", "a b"), "(no answer)");
  EXPECT_EQ(extracted("{regex: '^.$'}", "\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");  // a dot is a code point
  EXPECT_EQ(extracted("{regex: {pattern: '[0-9]+', which: last}}", "\xFF 1 \xC3 2 \xFF"), "2");
  // re.findall('x*', 'axb') is ['', 'x', '', '']: empty matches do not stop the search.
  EXPECT_EQ(extracted("{regex: {pattern: 'x*', which: last}}", "a\xC3\xA9xxb"), "");
  EXPECT_EQ(extracted("{regex: {pattern: 'x*(?=c)', which: last}}", "axxc"), "");
}

TEST(Extractor, APatternThatWouldRunForeverIsAnError) {
  EXPECT_EQ(test::message_of([] { extracted("{regex: '(a+)+$'}", std::string(40, 'a') + "b"); }),
            "extractor 'x': pattern '(a+)+$': match limit exceeded");
}

TEST(Extractor, ComparesTextOrNumbers) {
  EXPECT_EQ(score_answer(extractor("strip"), "18", "18"), 1);
  EXPECT_EQ(score_answer(extractor("strip"), "18.0", "18"), 0);
  EXPECT_EQ(score_answer(extractor("strip"), std::nullopt, "18"), 0);
  const auto number = extractor("strip", "number");
  EXPECT_EQ(score_answer(number, "18.0", "18"), 1);
  EXPECT_EQ(score_answer(number, "+18", "18"), 1);
  EXPECT_EQ(score_answer(number, ".5", "0.50"), 1);
  EXPECT_EQ(score_answer(number, "-18", "18"), 0);
  EXPECT_EQ(score_answer(number, "18 apples", "18"), 0);
  EXPECT_EQ(score_answer(number, "", "18"), 0);
  EXPECT_EQ(score_answer(number, "nan", "nan"), 0);
  EXPECT_EQ(gold_answer(number, "many"), std::nullopt);
}

// Every match begins with what is left of the text: work must not grow with the square of its length.
TEST(Regex, FindsTheLastOfManyMatchesQuickly) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "12 ";
  EXPECT_LT(test::processor_seconds([&] { EXPECT_EQ(Regex("[0-9]+").find(text + "7", 0, true), "7"); }), 10);
}

// 200,000 alternatives to come back to do not fit on a small stack of compiled code.
TEST(Regex, GoesDeepIntoLongTexts) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "ab";
  EXPECT_EQ(Regex("\\A(?:a|b)*c|ab\\z").find(text, 0, false), "ab");
}

TEST(Regex, CannotLeaveTheBoundsOfCharacters) { EXPECT_THROW(Regex("\\C"), Error); }

TEST(Regex, CopiesStandOnTheirOwn) {
  std::optional<Regex> first(std::in_place, "b+");
  const Regex copy = *first;
  first.reset();
  EXPECT_EQ(copy.find("abbc", 0, false), "bb");
  EXPECT_EQ(copy.n_groups(), 0);
}

}  // namespace
}  // namespace kvc
