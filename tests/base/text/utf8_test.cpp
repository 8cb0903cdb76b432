#include "text/utf8.h"

#include <gtest/gtest.h>

#include "kvc/check.h"

namespace kvc {
namespace {

// Table 3-7 of the Unicode standard: the first and last of each row, and what lies just outside.
TEST(Utf8, KnowsWellFormedBytes) {
  for (const char* good : {"", "a", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(first_invalid_utf8(good), std::nullopt) << good;
    EXPECT_EQ(to_utf8(to_code_points(good)), good);
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xE1\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE1\x80z"}) {
    EXPECT_EQ(first_invalid_utf8(std::string("ab") + bad), 2u) << bad;
    EXPECT_THROW(to_code_points(bad), Error);
  }
}

TEST(Utf8, GivesCodePoints) {
  EXPECT_EQ(to_code_points("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), U"a\u00E9\u20AC\U0001F600");
  EXPECT_THROW(to_utf8(std::u32string(1, char32_t{0xD800})), Error);
  EXPECT_THROW(to_utf8(std::u32string(1, char32_t{0x110000})), Error);
}

// Unicode 15, table 3-8: the longest start of a character is one replacement; the other reading takes each byte.
TEST(Utf8, ReplacesBrokenPartsAsTheStandardSaysOrByteByByte) {
  constexpr std::string_view kBroken =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  EXPECT_EQ(replace_broken_utf8(kBroken), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(to_code_points_replacing(kBroken), U"a\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
}

TEST(Utf8, KnowsWhereACharacterIsCutShort) {
  EXPECT_EQ(complete_utf8("a\xF0\x9F\x98"), 1u);
  EXPECT_EQ(complete_utf8("a\xF0\x9F\x98\x80"), 5u);
  EXPECT_EQ(complete_utf8("a\xF0\x80"), 3u);  // nothing could complete it
  EXPECT_EQ(complete_utf8("\xC3"), 0u);
}

TEST(Utf8, QuotesOnOneLine) {
  EXPECT_EQ(in_quotes("a\n\t\r\x7F\xFF\xC3\xA9"), "'a\\n\\t\\r\\x7f\\xff\xC3\xA9'");
  EXPECT_EQ(in_quotes(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
}

// The expected texts are Python's str.strip() and str.rstrip().
TEST(Utf8, StripsWhatPythonStrips) {
  EXPECT_EQ(strip(" \t\n\v\f\r\x1C\x1F\xC2\x85\xC2\xA0 a b \xE3\x80\x80\xE2\x80\xA8"), "a b");
  EXPECT_EQ(strip_end(" a \xE2\x80\xAF\n"), " a");
  EXPECT_EQ(strip("\xE2\x80\x8B"
                  "a\xEF\xBB\xBF"),
            "\xE2\x80\x8B"
            "a\xEF\xBB\xBF");  // of no width, but no space
  EXPECT_EQ(strip(" \n"), "");
  EXPECT_EQ(strip(""), "");
  EXPECT_EQ(strip(" \x85 \xA0\xE3\x80 "), "\x85 \xA0\xE3\x80");  // bytes that are no character
}

}  // namespace
}  // namespace kvc
