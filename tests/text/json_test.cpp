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
