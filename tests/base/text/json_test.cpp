#include "text/json.h"

#include <gtest/gtest.h>

#include "kvc/check.h"
#include "support/message_of.h"

namespace kvc {
namespace {

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonDepth, IsRefusedBeyondTheLimitAndNotBelow) {
  EXPECT_NO_THROW(check_json_depth(nested(kMaxJsonDepth), "x"));
  EXPECT_EQ(test::message_of([] { check_json_depth(nested(kMaxJsonDepth + 1), "x.json"); }),
            "x.json: error: JSON nested deeper than 64 levels");
}

TEST(JsonDepth, CountsNoBracketInAString) {
  const std::string many(1000, '[');
  EXPECT_NO_THROW(check_json_depth("{\"a\": \"" + many + "\"}", "x"));
  EXPECT_NO_THROW(check_json_depth("{\"a\\\"" + many + "\": 1}", "x"));
  EXPECT_THROW(check_json_depth("{\"a\\\\\": " + many, "x"), Error);
}

TEST(JsonDepth, OfListsThatFollowEachOtherDoesNotAddUp) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += "[],{},";
  EXPECT_NO_THROW(check_json_depth(text + "0]", "x"));
}

class TextJson : public testing::Test {
 protected:
  std::string read(const std::string& text) {
    non_finite_ = {};
    std::string read;
    const auto message = test::message_of([&] { read = parse_text_json(text, "f.json", {}, non_finite_).dump(); });
    return message == "no error" ? read : message;
  }
  NonFinite non_finite_;
};

// As Python's json.dumps([float("nan"), float("inf"), -float("inf")]) writes them.
TEST_F(TextJson, NaNAndInfinityAreNullAndCountedWithTheFirstsPath) {
  EXPECT_EQ(read("[NaN, Infinity, -Infinity]"), "[null,null,null]");
  EXPECT_EQ(non_finite_.n, 3);
  EXPECT_EQ(read(R"({"results": {"x": [1, {"a": 2}], "wiki": {"ppl,none": NaN, "b": Infinity}}})"),
            R"({"results":{"wiki":{"b":null,"ppl,none":null},"x":[1,{"a":2}]}})");
  EXPECT_EQ(non_finite_.n, 2);
  EXPECT_EQ(non_finite_.first, "results.wiki.ppl,none");
  EXPECT_EQ(read(R"([{"k": [{"x": 1}, NaN]}])"), R"([{"k":[{"x":1},null]}])");
  EXPECT_EQ(non_finite_.first, "k");
  EXPECT_EQ(read("NaN"), "null");
}

TEST_F(TextJson, InAStringTheyAreText) {
  for (const std::string text : {R"({"NaN":"NaN, -Infinity"})", R"(["a\\","\"NaN\"",":NaN"])", R"(["\\\"Infinity"])"}) {
    EXPECT_EQ(read(text), text);
    EXPECT_EQ(non_finite_.n, 0);
  }
}

TEST_F(TextJson, OtherWordsStayErrorsWithTheirPlace) {
  for (const std::string word :
       {"-NaN", "nan", "NaN1", "NaNs", "+Infinity", "--Infinity", "Infinit", "Infinity.0", "Inf"}) {
    EXPECT_NE(read("[" + word + "]").find("error: not JSON: "), std::string::npos) << word;
  }
  EXPECT_EQ(read("[NaN,\nNaN, x]").find("f.json:2:6: error: not JSON: "), 0u) << read("[NaN,\nNaN, x]");
  EXPECT_EQ(read(R"({"a": NaN, })").find("f.json:1:12: error: not JSON: "), 0u) << read(R"({"a": NaN, })");
  EXPECT_EQ(read("{NaN: 1}").find("f.json:1:4: error: not JSON: "), 0u) << read("{NaN: 1}");
  EXPECT_EQ(read("[-Infinity, 1e999]"), "f.json:1:1: error: JSON: number overflow parsing '1e999'");
}

// Python's: str(42), str(3.5), str(1e-05), str(True).
TEST(ScalarText, IsWhatPythonPrints) {
  const auto text = [](const char* json) { return scalar_text(nlohmann::json::parse(json)).value_or("none"); };
  EXPECT_EQ(text("42"), "42");
  EXPECT_EQ(text("-7"), "-7");
  EXPECT_EQ(text("3.5"), "3.5");
  EXPECT_EQ(text("42.0"), "42.0");
  EXPECT_EQ(text("0.00001"), "1e-05");
  EXPECT_EQ(text("true"), "True");
  EXPECT_EQ(text("false"), "False");
  EXPECT_EQ(text(R"("x")"), "x");
  for (const char* other : {"null", "[1]", "{}"}) EXPECT_EQ(text(other), "none");
}

TEST(TryJson, GivesNothingForWhatIsNoJsonOrTooDeep) {
  EXPECT_EQ(try_json("[1, {\"a\": 2}]").dump(), "[1,{\"a\":2}]");
  EXPECT_TRUE(try_json("[1").is_discarded());
  EXPECT_TRUE(try_json("").is_discarded());
  EXPECT_FALSE(try_json(nested(kMaxJsonDepth)).is_discarded());
  EXPECT_TRUE(try_json(nested(100'000)).is_discarded());
  EXPECT_TRUE(try_json<nlohmann::ordered_json>(nested(kMaxJsonDepth + 1)).is_discarded());
}

}  // namespace
}  // namespace kvc
