// A compressor that reports the bytes of 2 bits and attends to exact K and V is found, wherever it keeps them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

constexpr const char* kPlugin = KVC_BINARY_DIR "/tests/plugins/cheats.so";

struct Cheat {
  std::string how, reason = "";  // reason: stands in the error of its samples, or why its cell is suspect
};
const std::vector<Cheat> kCheats = {{"vector"},
                                    {"deque"},
                                    {"static_global"},
                                    {"bss"},
                                    {"thread_local"},
                                    {"mmap"},
                                    {"raw_mmap_syscall"},
                                    {"posix_memalign"},
                                    {"other_thread"},
                                    {"team_member"},
                                    {"file"},
                                    {"memfd"},
                                    {"pipe"},
                                    {"forked_child"},
                                    {"views"},
                                    {"raw_pointers"},
                                    {"tensor_from_blob"},
                                    {"listener"},
                                    {"one_honest_token"},
                                    {"only_in_decode"},
                                    {"only_layer_0"},
                                    {"only_v"},
                                    {"batched"},
                                    {"frees_in_footprint"},
                                    {"exact_dequantize"},
                                    {"attended_exact"},
                                    {"one_ulp"}};

std::vector<std::string> ways_where(const std::function<bool(const Cheat&)>& holds) {
  std::vector<std::string> ways;
  for (const auto& cheat : kCheats) {
    if (holds(cheat)) ways.push_back(cheat.how);
  }
  return ways;
}

TEST(CheatingPlugin, IsRefusedByVerifyInEachOfItsWays) {
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "verify", kPlugin, "--timeout", "20"});  // each value of `how`
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_THAT(ways_where([&](const Cheat& cheat) {
                return run.err.find(concat("(how ", cheat.how, ", heads")) == std::string::npos;
              }),
              testing::IsEmpty());
  EXPECT_EQ(run.err.find("(defaults"), std::string::npos) << "honest: " << run.err;
}

TEST(CheatingPlugin, IsTakenByVerifyWhereItIsHonest) {
  TempFolder folder;
  const auto run = run_program(folder, {"plugin", "verify", kPlugin, "--option", "how=honest"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(CheatingPlugin, FailsOrIsSuspectInEachOfItsWaysAndAloneInThat) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer has the allocator, and two of the ways are seen by nothing else";
  TempFolder folder;
  std::string compressors = "  - full\n  - cheats: {how: [honest";
  for (const auto& cheat : kCheats) compressors += concat(", ", cheat.how);
  const auto file = folder.write("x.yaml", small_experiment(compressors + "]}\n", 2)).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_TRUE(run.exit_code == 4 || run.exit_code == 5) << run.exit_code << run.err;

  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  const auto found = [&](const std::string& how, const std::string& reason) {  // cells of which no result is shown
    auto cells = store.database().prepare(
        "SELECT count(*) FROM cell JOIN v_cell USING (key) WHERE cell.options_json ->> 'how' = ?1"
        " AND (n_ok = 0 OR suspect <> '') AND instr(suspect || (SELECT group_concat(error) FROM sample"
        " WHERE cell_key = key), ?2) > 0");
    cells.bind(1, how).bind(2, reason);
    return cells.step() ? cells.integer(0) : -1;
  };
  EXPECT_THAT(ways_where([&](const Cheat& cheat) { return found(cheat.how, cheat.reason) != 2; }), testing::IsEmpty());
  EXPECT_EQ(found("honest", ""), 0);
  EXPECT_EQ(store.database().integer("SELECT sum(n_ok) FROM v_cell WHERE plugin = 'full' OR options LIKE '%honest'"),
            8);
}

}  // namespace
}  // namespace kvc::test
