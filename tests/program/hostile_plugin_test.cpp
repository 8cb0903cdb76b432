// A plugin that misbehaves costs its own samples and nothing else.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

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
  const auto file = folder.write("x.yaml", small_experiment("  - throws\n  - full\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_EQ(counts(folder / "r.sqlite", "throws").n_failed, 6);
  EXPECT_EQ(counts(folder / "r.sqlite", "full").n_ok, 6);
}

TEST(HostilePlugin, ThatCrashesFailsItsSamplesAndTheRunGoesOnInANewWorker) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n  - crashes\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("killed by signal 6"), std::string::npos) << run.err;
  EXPECT_EQ(counts(folder / "r.sqlite", "crashes").n_failed, 6);
  EXPECT_EQ(counts(folder / "r.sqlite", "full").n_ok, 6);
}

struct Misdeed {
  const char* how;
  const char* error;  // of its samples
};
class Misbehaving : public testing::TestWithParam<Misdeed> {};
INSTANTIATE_TEST_SUITE_P(
    Plugin, Misbehaving,
    testing::Values(Misdeed{"hangs", "s at one step inside the plugin"},
                    Misdeed{"stops_itself", "s at one step inside"},
                    Misdeed{"forks_and_hangs", "ended with exit code 0 inside the plugin"},
                    Misdeed{"writes_garbage", "what it wrote to its parent is no message inside the plugin"},
                    Misdeed{"writes_a_forged_answer", "its answer is"},
                    Misdeed{"closes_its_socket", "killed by signal 9 (Killed) inside the plugin"},
                    Misdeed{"throws_an_int", "something was thrown that is no std::exception"},
                    Misdeed{"throws_no_text", "an exception without a text was thrown"},
                    Misdeed{"attends_nan", "hold a value that is not finite"},
                    Misdeed{"attends_another_shape", "attend gave sizes"},
                    Misdeed{"attends_nothing", "attend gave no tensor"}, Misdeed{"says_a_longer_length", "length() is"},
                    Misdeed{"says_2_to_60_encoded", "n_encoded_tokens() is 1152921504606846976"}),
    [](const auto& info) { return std::string(info.param.how); });

TEST_P(Misbehaving, FailsItsSamplesByNameAndNoOther) {
  TempFolder folder;
  const auto compressors = std::string("  - misbehaves: {how: ") + GetParam().how + "}\n  - full\n";
  const auto file = folder.write("x.yaml", small_experiment(compressors) + "patience: 0.5\n").string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_EQ(counts(folder / "r.sqlite", "misbehaves").n_failed, 6);
  EXPECT_EQ(counts(folder / "r.sqlite", "full").n_ok, 6);
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  auto errors = store.database().prepare("SELECT count(*) FROM sample WHERE instr(error, ?) > 0");
  EXPECT_TRUE(errors.bind(1, std::string(GetParam().error)).step() && errors.integer(0) > 0)
      << store.database().text("SELECT error FROM sample WHERE error != ''");
}

TEST(HostilePlugin, ThatHangsIsNotAskedAThirdTime) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - misbehaves\n") + "patience: 0.5\n").string();
  run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE error LIKE 'not run: the plugin%'"), 4);
}

TEST(HostilePlugin, ThatReadsStdinFindsItEmpty) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - misbehaves: {how: reads_stdin}\n")).string();
  run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(counts(folder / "r.sqlite", "misbehaves").n_ok, 6);
}

TEST(HostilePlugin, ThatClaimsToCompressButStoresAllIsSuspectAndOutOfTheTable) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n  - lying_zero_error\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_NE(run.err.find("suspect: demo/truth lying_zero_error"), std::string::npos) << run.err;
  EXPECT_EQ(run.out.find("| lying_zero_error"), std::string::npos) << run.out;
}

TEST(HostilePlugin, ThatHidesABufferFails) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - hides_bytes\n")).string();
  const auto run = run_program(folder, {"run", file, "--db", (folder / "r.sqlite").string()});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_NE(run.err.find("footprint() must count every buffer"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvc::test
