// Questions that are made: length, depth, and the same ones everywhere.
#include "data/haystack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/message_of.h"
#include "support/places.h"
#include "task/task_groups.h"
#include "task/task_spec.h"
#include "text/files.h"

namespace kvc {
namespace {

std::vector<nlohmann::json> made(const char* task) {
  return make_haystacks(*load_task(find_task(test::kTasks, task)).data.haystack, {});
}

int64_t n_words(const std::string& text) {
  std::istringstream words(text);
  int64_t n = 0;
  for (std::string word; words >> word;) ++n;
  return n;
}

TEST(Haystack, HasTheStatedLengthAndHoldsItsNeedleOnceAtTheStatedDepth) {
  const auto all = made("passkey/digits");
  ASSERT_EQ(all.size(), 7u * 5 * 4);
  for (const auto& one : all) {
    const auto text = one["haystack"].get<std::string>(), needle = one["needle"].get<std::string>();
    const auto length = one["length"].get<int64_t>();
    EXPECT_LE(n_words(text), length);
    EXPECT_GE(n_words(text), length - 20);  // less than a sentence is missing
    const auto at = text.find(needle);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(text.find(needle, at + 1), std::string::npos);
    const double depth =
        100.0 * static_cast<double>(n_words(text.substr(0, at))) / static_cast<double>(n_words(text) - n_words(needle));
    EXPECT_NEAR(depth, one["depth"].get<double>(), length <= 128 ? 12 : 6);
  }
}

TEST(Haystack, KeysAreAskedForAndNotToBeGuessed) {
  std::set<std::string> keys;
  for (const auto& one : made("passkey/digits")) keys.insert(one["key"].get<std::string>());
  EXPECT_GT(keys.size(), 130u);
  for (const auto& one : made("needle/place")) {
    const auto needle =
        one["subject"].get<std::string>() + " keeps the spare key in the " + one["key"].get<std::string>() + ".";
    EXPECT_EQ(one["needle"], needle);
  }
}

// The generator's own numbers, written down once: a question must not change from one machine or version to the next.
TEST(Haystack, IsTheSameEverywhere) {
  std::string all;
  for (const auto& one : made("passkey/digits")) all += one["haystack"].get<std::string>() + "\n";
  EXPECT_EQ(sha256_hex(all), "c9e91b3fec0e2330e838b64380850108abfcd3939d92ab32423671f698dbbea5");
}

// So that a limit of twenty samples has every length and depth once.
TEST(Haystack, InRoundsIsTheSameQuestionsInAnotherOrder) {
  for (const char* task : {"passkey/to_8k", "needle/to_8k"}) {
    auto spec = *load_task(find_task(test::kTasks, task)).data.haystack;
    const auto rounds = make_haystacks(spec, {});
    ASSERT_EQ(rounds.size(), 4u * 5 * 5);
    std::set<std::pair<int64_t, int64_t>> first;
    for (size_t i = 0; i < 20; ++i) first.emplace(rounds[i]["length"], rounds[i]["depth"]);
    EXPECT_EQ(first.size(), 20u);
    spec.in_rounds = false;
    const auto lengths = make_haystacks(spec, {});
    EXPECT_NE(rounds, lengths);
    EXPECT_TRUE(std::is_permutation(rounds.begin(), rounds.end(), lengths.begin(), lengths.end()));
  }
}

TEST(Haystack, ATextTooShortForItsNeedleIsRefused) {
  auto spec = *load_task(find_task(test::kTasks, "passkey/digits")).data.haystack;
  spec.lengths = {12};
  EXPECT_NO_THROW(make_haystacks(spec, {}));
  spec.lengths = {11};
  EXPECT_NE(
      test::message_of([&] { make_haystacks(spec, {}); }).find("a text of 11 words has no room for the needle of 12"),
      std::string::npos);
}

TEST(TaskGroups, MembersAreTasksPrefixesAndGroupsAbove) {
  std::vector<std::string> names;
  for (const auto& id : find_tasks(test::kTasks)) names.push_back(id.name());
  const auto groups = load_task_groups(test::kTasks / "groups.yaml", names);
  const auto group = [&](const std::string& name) {
    return *std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.name == name; });
  };
  EXPECT_EQ(group("BBH").members.size(), 27u);
  EXPECT_EQ(group("LongBench 21 sets").members.size(), 21u);
  EXPECT_EQ(group("LongBench English").members.size(), 6u);
  EXPECT_TRUE(group("LongBench English").members[0].is_group);
  EXPECT_EQ(group("MMLU 5-shot").members.size(), 57u);
  EXPECT_THROW(load_task_groups(test::kTasks / "groups.yaml", {"bbh/snarks"}), Error);
}

}  // namespace
}  // namespace kvc
