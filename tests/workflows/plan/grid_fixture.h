// A small grid, planned and run as a user does it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "plan/plan.h"
#include "plan/run_shard.h"
#include "store/result_store.h"
#include "support/program.h"
#include "support/stable_dump.h"
#include "text/files.h"

namespace kvc::test {

inline std::string dump(const std::filesystem::path& database) {
  auto db = Database::open(database, Database::Mode::kReadOnly, 10'000);
  return stable_dump(db);
}

class GridTest : public ::testing::Test {
 protected:
  // kvc plan, with the small experiment and n samples of each task.
  void plan(std::vector<std::string> options, int n = 16) {
    folder.write("small.yaml", small_experiment("  - full\n  - kivi: {bits: 2, group_size: 32, recent: 32}\n"
                                                "  - kivi: {bits: 4, group_size: 32, recent: 32}\n",
                                                n));
    std::vector<std::string> words{"plan", experiment.string(), "--out", file.string(), "--set", "batch_size=1"};
    words.insert(words.end(), options.begin(), options.end());
    const auto done = run_program(folder, words);
    ASSERT_EQ(done.exit_code, 0) << done.err;
    planned = load_plan(file);
  }

  Finished run_shard(size_t shard) {
    return run_program(folder, {"run", "--plan", file.string(), "--shard",
                                std::to_string(shard) + "/" + std::to_string(planned.shards.size())});
  }

  // The same experiment in one process and one database.
  std::string undisturbed() {
    const auto database = folder / "undisturbed.sqlite";
    const auto done =
        run_program(folder, {"run", experiment.string(), "--db", database.string(), "--set", "batch_size=1"});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return dump(database);
  }

  // All shards in one database.
  Finished merge(const std::filesystem::path& into) {
    std::vector<std::string> words{"merge", into.string()};
    for (size_t s = 0; s < planned.shards.size(); ++s) words.push_back(planned.database_of(s).string());
    return run_program(folder, words);
  }

  static bool wait_for(const std::function<bool()>& holds, int seconds) {
    for (int i = 0; i < 4 * seconds; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
    }
    return false;
  }

  // Of the start that wrote it last.
  ShardState state_of(size_t shard) {
    const auto file = planned.state_of(shard);
    if (!std::filesystem::exists(file)) return {};
    return nlohmann::json::parse(read_file(file)).get<ShardState>();
  }
  bool at_work(size_t shard) { return state_of(shard).state == "running"; }

  TempFolder folder;
  std::filesystem::path experiment = folder / "small.yaml", file = folder / "grid.json";
  Plan planned;
};

}  // namespace kvc::test
