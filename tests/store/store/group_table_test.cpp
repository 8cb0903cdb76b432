// Means over groups of tasks: expected values by hand.
#include "analysis/group_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "store_fixture.h"

namespace kvc {
namespace {

using GroupTable = StoreTest;

// Samples of 0 or 1 for a cell of that task.
void put(ResultStore& store, const std::string& task, const std::vector<double>& values) {
  auto cell = make_cell("full " + task, "full", task);
  cell.n_samples = static_cast<int64_t>(values.size());
  store.put_cell(cell);
  for (size_t i = 0; i < values.size(); ++i) {
    auto sample = make_sample(cell.key, static_cast<int64_t>(i), values[i]);
    sample.scores.push_back({"log_likelihood", "", -std::log(2.0 + static_cast<double>(i))});
    store.put_sample(sample);
  }
}

std::vector<TaskGroup::Member> members(std::vector<std::string> tasks) {
  std::vector<TaskGroup::Member> result;
  for (const auto& task : tasks) result.push_back({task, false});
  return result;
}

TEST_F(GroupTable, MeansAreOfTasksOfSamplesAndOfGroups) {
  auto store = ResultStore::open(path_);
  put(store, "a", {1, 1, 1, 0});  // 75
  put(store, "b", {0});           // 0
  put(store, "c", {1, 0});        // 50
  using enum TaskGroup::Mean;
  const std::vector<TaskGroup> groups = {
      {"macro", kTasks, members({"a", "b"}), "", false},                   // 37.5
      {"micro", kSamples, members({"a", "b"}), "", false},                 // 3 of 5
      {"one", kTasks, members({"c"}), "", false},                          // 50
      {"of groups", kTasks, {{"macro", true}, {"one", true}}, "", false},  // 43.75
      {"second", kTasks, members({"a", "b"}), "second", false},            // another score: 0
      {"perplexity", kSamples, members({"c"}), "log_likelihood", true},    // exp((ln 2 + ln 3) / 2) = sqrt(6)
      {"part", kTasks, members({"a", "missing"}), "", false},
      {"nothing", kTasks, members({"missing"}), "", false},
  };
  EXPECT_EQ(write_markdown(group_table(store.database(), {}, groups)),
            "**groups of tasks**\n\n"
            "| compressor | options | macro [%] | micro [%] | one [%] | of groups [%] | second [%] | perplexity |      "
            " part [%] |\n"
            "| ---------- | ------- | --------: | --------: | ------: | ------------: | ---------: | ---------: | "
            "-------------: |\n"
            "| full       |         |     37.50 |     60.00 |   50.00 |         43.75 |       0.00 |       2.45 | "
            "75.00 (1 of 2) |\n"
            "\n- (a of b): mean over the a tasks of b that have a score\n");
  EXPECT_TRUE(group_table(store.database(), {}, {groups.back()}).rows.empty());
}

TEST_F(GroupTable, GroupsOfTheSameNumbersAreOneColumn) {
  auto store = ResultStore::open(path_);
  put(store, "a", {1, 0});
  using enum TaskGroup::Mean;
  const auto table = group_table(store.database(), {},
                                 {{"by task", kTasks, members({"a", "missing"}), "", false},
                                  {"by sample", kSamples, members({"a", "missing"}), "", false},
                                  {"whole", kTasks, members({"a"}), "", false}});
  EXPECT_EQ(write_csv(table), "compressor,options,by task [%],whole [%]\r\nfull,,50.00 (1 of 2),50.00\r\n");
  EXPECT_EQ(table.notes.back(), "by sample: the same as by task");
}

}  // namespace
}  // namespace kvc
