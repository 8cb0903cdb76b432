// A plugin that misbehaves costs its own samples and nothing else.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "program/stored.h"

namespace kvc::test {
namespace {

// The plugins' code runs in the worker: what a process of their own prevents is tested at the end.
std::string in_worker(const std::string& compressors, int limit = 3) {
  return small_experiment(compressors, limit) + "isolation: none\n";
}

struct Counts {
  int64_t n_ok, n_failed;
};

Counts counts(const std::filesystem::path& database, const std::string& plugin) {
  auto store = ResultStore::open_readonly(database);
  const auto count = [&](const std::string& status) {
    return store.database().integer(
        "SELECT count(*) FROM sample JOIN cell ON cell.key = sample.cell_key WHERE cell.plugin = '" + plugin +
        "' AND sample.status = '" + status + "'");
  };
  return {count("ok"), count("failed")};
}

TEST(HostilePlugin, ThatThrowsFailsItsSamplesAndTheRunGoesOn) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - throws\n  - full\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_EQ(counts(folder / "r.sqlite", "throws").n_failed, 6);
  EXPECT_EQ(counts(folder / "r.sqlite", "full").n_ok, 6);
}

TEST(HostilePlugin, ThatCrashesFailsItsSamplesAndTheRunGoesOnInANewWorker) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - full\n  - crashes\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("killed by signal 6"), std::string::npos) << run.err;
  EXPECT_EQ(counts(folder / "r.sqlite", "crashes").n_failed, 6);
  EXPECT_EQ(counts(folder / "r.sqlite", "full").n_ok, 6);
}

struct Way {
  std::string how;
  std::optional<std::string> error = {};  // stands in that of its samples, which all fail; without they need not
  std::string where = "append";
};
// In one run: what ends a worker, halts it, throws or changes its state each has a group.
struct Group {
  const char* name;
  std::vector<Way> ways;
  const char* settings = "";  // of the experiment

  friend void PrintTo(const Group& group, std::ostream* out) { *out << group.name; }
};

const std::vector<Group> kGroups = {
    {"AnswerWrongly",
     {{"throws_an_int", "something was thrown that is no std::exception"},
      {"throws_an_int", "something was thrown that is no std::exception", "footprint"},
      {"throws_no_text", "an exception without a text was thrown"},
      {"throws_5_mb", "five megabytes"},
      {"allocates_without_end", ""},
      {"attends_nan", "not finite"},
      {"attends_another_shape", "attend gave sizes"},
      {"attends_nothing", "attend gave no tensor"},
      {"footprint_negative", "footprint() has -"},
      {"says_a_longer_length", "length() is"},
      {"throws_an_int", "something was thrown that is no std::exception", "worker"},
      {"changes_rounding", "the compressor left the rounding mode changed when it was made", "worker"},
      {"says_2_to_60_encoded", "n_encoded_tokens() is 1152921504606846976"}}},
    {"ChangeTheProcess",
     {{"changes_inputs"},
      {"changes_q"},
      {"changes_rounding"},
      {"flushes_denormals"},
      {"changes_bf16"},
      {"changes_threads"},
      {"changes_seed"},
      {"changes_default_dtype"},
      {"disables_grad_mode"},
      {"opens_inference_mode"},
      {"changes_locale"},
      {"changes_directory"},
      {"changes_environment"},
      {"floods_stdout"}}},
    {"KeepWhatTheyTook", {{"leaks"}, {"opens_files"}}, "batch_size: 1\n"},
    {"EndTheProcess",
     {{"exits_0", "ended with exit code 0 inside the plugin"},
      {"exits_0", "ended with exit code 0", "footprint"},
      {"exits_0", "ended with exit code 0", "destructor"},
      {"aborts", "killed by signal 6"},
      {"aborts", "killed by signal 6", "footprint"},
      {"aborts", "killed by signal 6", "destructor"},
      {"segfaults", "killed by signal 11"},
      {"segfaults", "killed by signal 11", "footprint"},
      {"segfaults", "killed by signal 11", "destructor"},
      {"segfaults", "killed by signal 11 (Segmentation fault) inside the plugin", "worker"},
      {"exits_0", "ended with exit code 0 inside the plugin", "worker"},
      {"forks_and_hangs", "ended with exit code 0 inside the plugin"},
      {"writes_garbage", "its message is not valid inside the plugin"},
      {"writes_a_forged_answer", "its message is not valid inside the plugin"},
      {"writes_answers_of_others", "its message is not valid inside the plugin"},
      {"says_that_all_is_done", "its message is not valid inside the plugin"}}},
    {"HaltTheProcess",
     {{"hangs", "s at one step inside the plugin"},
      {"hangs", "s at one step inside the plugin", "worker"},
      {"stops_itself", "s at one step inside"},
      {"ignores_signals", "s at one step inside"},
      {"closes_its_socket", "killed by signal 9 (Killed) inside the plugin"}}},
};

constexpr const char* kHonest =
    "  - full\n  - token_group: {bits: 2, group_size: 64}\n  - kivi: {bits: 2, group_size: 32, recent: 32}\n";

// All that is stored of the honest compressors, to the bit.
std::vector<std::string> honest_rows(const std::filesystem::path& database) {
  auto store = ResultStore::open_readonly(database);
  auto keys = store.database().prepare("SELECT key FROM cell WHERE plugin = 'misbehaves'");
  std::vector<std::string> others = {"experiment_cell "};  // places in the experiment
  while (keys.step()) others.push_back(keys.text(0));
  std::istringstream dump(stable_dump(store.database()));
  std::vector<std::string> rows;
  for (std::string line; std::getline(dump, line);) {
    const bool honest = std::none_of(others.begin(), others.end(),
                                     [&](const auto& other) { return line.find(other) != std::string::npos; });
    if (honest) rows.push_back(line);
  }
  return rows;
}

// The first row that is not as expected, or "".
std::string first_change(const std::vector<std::string>& rows, const std::vector<std::string>& expected) {
  const auto [row, other] = std::mismatch(rows.begin(), rows.end(), expected.begin(), expected.end());
  if (row == rows.end()) return other == expected.end() ? "" : "no row for " + *other;
  return *row;
}

class Misbehaving : public testing::TestWithParam<Group> {};
INSTANTIATE_TEST_SUITE_P(Plugins, Misbehaving, testing::ValuesIn(kGroups),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Misbehaving, CostTheirOwnCellsAndChangeNoBitOfOthers) {
  const bool ends = std::string(GetParam().name).ends_with("TheProcess");
  if (kIsSanitized && ends) GTEST_SKIP() << "a sanitizer ends the process in its own words and its own time";
  TempFolder folder;
  std::string misbehaving;
  for (const auto& way : GetParam().ways)
    misbehaving += concat("  - misbehaves: {how: ", way.how, ", where: ", way.where, "}\n");
  const auto run = [&](const std::string& compressors, const char* database) {
    const auto text = in_worker(compressors + kHonest, 1) + "patience: 0.5\n" + GetParam().settings;
    const std::vector<std::string> few_files = {"/bin/sh", "-c", "ulimit -n 256; exec \"$0\" \"$@\""};
    const std::vector<std::string> arguments = {"run", folder.write("x.yaml", text), "--db", folder / database};
    return Program(folder, arguments, "", few_files).wait();
  };
  EXPECT_EQ(run("", "honest.sqlite").exit_code, 0);
  const auto beside = run(misbehaving, "r.sqlite");
  EXPECT_TRUE(beside.exit_code == 4 || beside.exit_code == 0) << beside.exit_code << beside.err;
  EXPECT_EQ(first_change(honest_rows(folder / "r.sqlite"), honest_rows(folder / "honest.sqlite")), "");

  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  for (const auto& way : GetParam().ways) {
    SCOPED_TRACE(concat(way.how, " in ", way.where));
    auto samples = store.database().prepare(
        "SELECT count(*), sum(status = 'failed'), sum(instr(error, ?1) > 0), max(length(error)), min(error) FROM sample"
        " JOIN cell ON key = cell_key WHERE options_json ->> 'how' = ?2 AND options_json ->> 'where' = ?3");
    samples.bind(1, way.error.value_or("")).bind(2, way.how).bind(3, way.where);
    ASSERT_TRUE(samples.step());
    EXPECT_EQ(samples.integer(0), 2);
    EXPECT_LT(samples.integer(3), 1000);
    const auto error = samples.text(4);
    EXPECT_TRUE(std::none_of(error.begin(), error.end(), [](unsigned char c) { return c < ' '; })) << error;
    if (!way.error) continue;
    EXPECT_EQ(samples.integer(1), 2);
    EXPECT_GT(samples.integer(2), 0) << error;
    EXPECT_EQ(beside.exit_code, 4);
  }
}

// The same in processes of their own, where what it says of the failure depends on what the kernel refused.
TEST_P(Misbehaving, CostTheirOwnCellsInProcessesOfTheirOwn) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer's calls are refused";
  TempFolder folder;
  std::string misbehaving;
  std::vector<Way> ways;
  for (const auto& way : GetParam().ways) {
    if (way.where == "worker") continue;  // there is no plugin's code there
    ways.push_back(way);
    misbehaving += concat("  - misbehaves: {how: ", way.how, ", where: ", way.where, "}\n");
  }
  const auto run = [&](const std::string& compressors, const char* database) {
    const auto text = small_experiment(compressors + kHonest, 1) + "patience: 2\n" + GetParam().settings;
    return run_program(folder, {"run", folder.write("x.yaml", text), "--db", folder / database});
  };
  EXPECT_EQ(run("", "honest.sqlite").exit_code, 0);
  run(misbehaving, "r.sqlite");
  EXPECT_EQ(first_change(honest_rows(folder / "r.sqlite"), honest_rows(folder / "honest.sqlite")), "");
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  for (const auto& way : ways) {
    SCOPED_TRACE(concat(way.how, " in ", way.where));
    auto samples = store.database().prepare(
        "SELECT count(*), sum(status = 'failed'), max(length(error)), min(error) FROM sample JOIN cell ON key = "
        "cell_key"
        " WHERE options_json ->> 'how' = ?1 AND options_json ->> 'where' = ?2");
    samples.bind(1, way.how).bind(2, way.where);
    ASSERT_TRUE(samples.step());
    EXPECT_EQ(samples.integer(0), 2);
    EXPECT_LT(samples.integer(2), 1000);
    if (way.error) EXPECT_EQ(samples.integer(1), 2) << samples.text(3);
  }
}

TEST(HostilePlugin, ThatHangsIsNotAskedAThirdTime) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - misbehaves\n") + "patience: 0.5\n").string();
  run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE error LIKE 'not run: the plugin%'"), 4);
}

TEST(HostilePlugin, WithoutANumberOfBitsIsRefusedBeforeTheRun) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - full\n  - misbehaves: {how: bits_nan}\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("bits() of misbehaves is nan, expected above 0"), std::string::npos) << run.err;
}

TEST(HostilePlugin, ThatReadsStdinFindsItEmpty) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - misbehaves: {how: reads_stdin}\n")).string();
  run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(counts(folder / "r.sqlite", "misbehaves").n_ok, 6);
}

TEST(HostilePlugin, ThatClaimsToCompressButStoresAllIsSuspectAndOutOfTheTable) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - full\n  - lying_zero_error\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_NE(run.err.find("suspect: demo/truth lying_zero_error"), std::string::npos) << run.err;
  EXPECT_EQ(run.out.find("| lying_zero_error"), std::string::npos) << run.out;
}

// Whatever they left has ended with the run: a file that they write to grows no more.
class Leaving : public testing::TestWithParam<const char*> {
 protected:
  int64_t size_of_mark() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(folder_ / "mark", none);
    return none ? 0 : static_cast<int64_t>(size);
  }
  void expect_no_more_marks() const {
    const auto size = size_of_mark();
    EXPECT_GT(size, 0);
    ::usleep(500'000);
    EXPECT_EQ(size_of_mark(), size);
  }
  std::vector<std::string> arguments(const std::string& more = "") {
    ::setenv("KVC_TEST_MARK", (folder_ / "mark").c_str(), 1);
    const auto file = folder_.write(
        "x.yaml", in_worker(concat("  - misbehaves: {how: ", GetParam(), "}\n"), 1) + "patience: 0.5\n" + more);
    return {"run", file, "--db", folder_ / "r.sqlite"};
  }

  TempFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(HostilePlugin, Leaving,
                         testing::Values("leaves_a_daemon", "leaves_a_daemon_of_its_worker",
                                         "leaves_a_chain_of_daemons"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Leaving, ProcessesEndsThemWithTheRun) {
  const auto run = run_program(folder_, arguments());
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("that a plugin had left running"), std::string::npos) << run.err;
  expect_no_more_marks();
}

TEST_P(Leaving, ProcessesEndsThemWhereASignalEndsTheRun) {
  for (const int n_signals : {1, 2}) {  // the second ends it at once
    std::filesystem::remove(folder_ / "mark");
    auto words = arguments();
    words.insert(words.end(), {"--set", "tasks=[demo/lookup]", "--limit", "200"});
    Program program(folder_, words);
    for (int i = 0; i < 400 && size_of_mark() == 0; ++i) ::usleep(50'000);
    for (int i = 0; i < n_signals; ++i) ::kill(program.pid(), SIGTERM);
    program.wait();
    expect_no_more_marks();
  }
}

TEST(HostilePlugin, ThatHidesABufferFails) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", in_worker("  - hides_bytes\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("footprint() must count every buffer"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvc::test
