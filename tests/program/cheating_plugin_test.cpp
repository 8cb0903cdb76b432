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
                                    {"one_ulp"},
                                    {"drops_a_token", "does not say that it evicts"},
                                    {"drops_a_token_of_a_head", "does not say that it evicts"},
                                    {"drops_a_token_later"},
                                    {"drops_half", "does not say that it evicts"}};

std::vector<std::string> ways_where(const std::function<bool(const Cheat&)>& holds) {
  std::vector<std::string> ways;
  for (const auto& cheat : kCheats) {
    if (holds(cheat)) ways.push_back(cheat.how);
  }
  return ways;
}

TEST(CheatingPlugin, IsRefusedByVerifyInEachOfItsWays) {
  TempFolder folder;
  const auto run = run_program(
      folder, {"plugin", "verify", kPlugin, "--timeout", "20", "--check",  // each value of `how`
               "answers_come_from_what_is_held", "footprint_equals_allocated_bytes", "process_grows_by_the_footprint"});
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

// If the plugin declares that it evicts, the tokens that it keeps are still compared with its bytes.
constexpr const char* kDropping[] = {"drops_a_token", "drops_a_token_of_a_head", "drops_a_token_later", "drops_half"};

TEST(EvictingCheat, IsRefusedByVerify) {
  TempFolder folder;
  for (const char* how : kDropping) {
    const auto run =
        run_program(folder, {"plugin", "verify", KVC_BINARY_DIR "/tests/plugins/evicting_cheats.so", "--option",
                             concat("how=", how), "--check", "answers_come_from_what_is_held"});
    EXPECT_EQ(run.exit_code, 5) << how << run.err;
    EXPECT_NE(run.out.find("which cannot give less than"), std::string::npos) << how << run.out;
  }
}

TEST(EvictingCheat, FailsInARun) {
  TempFolder folder;
  std::string ways;
  for (const char* how : kDropping) ways += concat(ways.empty() ? "" : ", ", how);
  const auto file = folder.write("x.yaml", small_experiment(concat("  - evicting_cheats: {how: [", ways, "]}\n"), 1));
  run_program(folder, {"run", file, "--db", folder / "r.sqlite"});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample"), 8);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE error LIKE '%which cannot give less than%'"),
            8);
}

// It attends exactly in layers whose cache was not asked as often as an audit would ask it.
TEST(CheatThatLooksForTheAudit, FindsNoLayerThatIsNotAudited) {
  TempFolder folder;
  const std::string ways = "honest, unless_attended_at_once, unless_asked_at_once, unless_asked_later";
  const auto file = folder.write("x.yaml", small_experiment("  - full\n  - cheats: {how: [" + ways + "]}\n", 4));
  run_program(folder, {"run", file, "--db", folder / "r.sqlite"});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  auto& db = store.database();
  const std::string others =
      "SELECT count(*) FROM sample AS s JOIN cell AS c ON c.key = s.cell_key JOIN cell AS h"
      " ON h.task = c.task JOIN sample AS t ON t.cell_key = h.key AND t.sample = s.sample"
      " WHERE h.options_json ->> 'how' = 'honest' AND s.status = 'ok' AND ";
  // One attends exactly before it is asked, which is seen; the others attend to what they store, like honest ones.
  EXPECT_EQ(db.integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 4 * 8);
  EXPECT_EQ(db.integer("SELECT count(*) FROM sample JOIN cell ON key = cell_key WHERE status = 'failed'"
                       " AND options_json ->> 'how' = 'unless_asked_at_once'"),
            8);
  EXPECT_EQ(db.integer(others + "c.plugin = 'cheats' AND s.token_ids_json <> t.token_ids_json"), 0);
  EXPECT_GT(db.integer(others + "c.plugin = 'full' AND s.token_ids_json <> t.token_ids_json"), 0);
}

// It stores 16 bits unless it takes a prompt for one of which only the size is measured.
TEST(CheatThatLooksForASize, IsMeasuredAsItIsInSamplesOrNotAtAll) {
  TempFolder folder;
  auto text =
      small_experiment("  - cheats: {how: [honest, small_under_key_1, small_of_normal_numbers, small_at_4096]}\n");
  text.replace(text.find("sizes: []"), 9, "sizes: [4096]");
  const auto run = run_program(folder, {"run", folder.write("x.yaml", text), "--db", folder / "r.sqlite"});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  const auto n_of = [&](const std::string& how, const std::string& what) {
    return store.database().integer(
        "SELECT count(*) FROM cell_size JOIN cell ON key = cell_key WHERE options_json ->> 'how' = '" + how + "' AND " +
        what);
  };
  SCOPED_TRACE(run.out + run.err + store.database().text("SELECT group_concat(error, '; ') FROM cell_size"));
  EXPECT_EQ(n_of("honest", "kv_bytes < 0.25 * kv_bytes_fp16"), 2);
  EXPECT_EQ(n_of("small_under_key_1", "kv_bytes = kv_bytes_fp16"), 2);
  EXPECT_EQ(n_of("small_of_normal_numbers", "kv_bytes = kv_bytes_fp16"), 2);
  EXPECT_EQ(n_of("small_at_4096", "kv_bytes IS NULL AND error LIKE '%those of samples carry on to%'"), 2);
}

// Its codes are said to be tokens that are not encoded, which bits/value leave out.
TEST(CheatThatCallsCodesRecent, IsNotBelieved) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - cheats: {how: all_recent}\n", 1));
  run_program(folder, {"run", file, "--db", folder / "r.sqlite"});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE status = 'ok' AND kv_bytes > 0"), 2);
  EXPECT_EQ(store.database().integer("SELECT sum(recent_bytes) FROM sample"), 0);
}

}  // namespace
}  // namespace kvc::test
