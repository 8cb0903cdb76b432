// Standard output that is full, closed, or no longer read.
#include <gtest/gtest.h>

#include "program/stored.h"

namespace kvc::test {
namespace {

constexpr const char* kLost = "kvc: cannot write standard output: ";

// The command followed by `redirection`, as a shell reads it.
Finished redirected(const TempFolder& folder, std::vector<std::string> arguments, const std::string& redirection,
                    const std::string& input = "") {
  return Program(folder, std::move(arguments), input, {"/bin/bash", "-c", "\"$@\" " + redirection, "bash"}).wait();
}

TEST(StandardOutput, ThatIsFullOrClosedIsToldByEveryVerb) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n", 1)).string();
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database}).exit_code, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"table", "summary", "--db", database, "--format", "csv"},
      {"ls", database},
      {"query", "SELECT count(*) FROM sample", "--db", database},
      {"columns"},
      {"page", "verbs"},
      {"completion", "bash"},
      {"--help"},
      {"run", "--help"},
      {"help", "table"},
      {"--version"},
      {"tasks"},
      {"plugins"},
      {"model", "show", "models/demo"},
      {"prompt", "demo/truth", "0"},
      {"validate", file},
      {"run", file, "--db", database, "--dry-run"},
      {"run", file, "--db", database},
      {"status", database},
      {"tokenize", "models/demo"},
      {"generate", "models/demo", "--prompt", "x", "--max-new-tokens", "4"},
  };
  for (const auto& command : commands) {
    const auto words = ::testing::PrintToString(command);
    const auto input = command.front() == "tokenize" ? "\"a\"\n" : "";
    const auto full = redirected(folder, command, "> /dev/full", input);
    EXPECT_EQ(full.exit_code, 3) << words << full.err;
    EXPECT_NE(full.err.find(std::string(kLost) + "No space left on device\n"), std::string::npos) << words << full.err;
    EXPECT_EQ(n_lines_of_kvc(full.err), 1) << words << full.err;
    const auto closed = redirected(folder, command, ">&-", input);
    EXPECT_EQ(closed.exit_code, 3) << words << closed.err;
    EXPECT_NE(closed.err.find(std::string(kLost) + "Bad file descriptor\n"), std::string::npos) << words << closed.err;
  }
}

TEST(StandardOutput, ThatIsClosedIsNoDatabase) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n", 1)).string();
  const auto database = (folder / "r.sqlite").string();
  EXPECT_EQ(redirected(folder, {"run", file, "--db", database}, "<&- >&- 2>&-").exit_code, 3);
  EXPECT_EQ(n_samples(database), 2);
  EXPECT_EQ(ResultStore::open_readonly(database).database().text("PRAGMA integrity_check"), "ok");
}

TEST(StandardOutput, ThatIsReadNoMoreEndsACommandQuietly) {
  TempFolder folder;
  for (const std::string ignored : {"", "trap '' PIPE; "}) {
    const std::vector<std::string> wrapper = {"/bin/bash", "-c", ignored + "\"$@\" | true; exit ${PIPESTATUS[0]}",
                                              "bash"};
    const auto run = Program(folder, {"page", "verbs"}, "", wrapper).wait();
    EXPECT_EQ(run.exit_code, 141) << ignored;
    EXPECT_EQ(run.err, "") << ignored;
  }
}

TEST(StandardOutput, OfACommandThatFailsLeavesItsExitCode) {
  TempFolder folder;
  const auto run = redirected(folder, {"table", "summary", "--db", "none.sqlite"}, "> /dev/full");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("none.sqlite"), std::string::npos) << run.err;
}

// A file-size limit in place of a full disk: writes beyond it fail.
TEST(Files, ThatADiskHasNoRoomForAreToldAndNotLeftHalfWritten) {
  TempFolder folder;
  const auto file = folder.write("x.yaml", small_experiment("  - full\n", 60)).string();
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database}).exit_code, 0);
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  struct Case {
    std::vector<std::string> command;
    std::string made;
    int kilobytes;  // that a file may have: of a database's readers its index needs 32
  };
  const std::vector<Case> cases = {
      {{"export", "csv", "--db", database, "-o", at("o/s.csv")}, at("o/s.csv"), 40},
      {{"export", "jsonl", "--db", database, "-o", at("o/s.jsonl")}, at("o/s.jsonl"), 40},
      {{"export", "lm-eval", "--db", database, "-o", at("o/e")}, at("o/e"), 40},
      {{"report", database, "-o", at("o/r.html")}, at("o/r.html"), 40},
      {{"serve", database, "--metadata", at("o/m.json")}, at("o/m.json"), 40},
      {{"plan", file, "--shards", "2", "--out", at("o/p.json")}, at("o/p.json"), 1},
      {{"plugin", "new", "mine", "--into", at("o")}, at("o/mine"), 1},
  };
  for (const auto& [command, made, kilobytes] : cases) {
    const auto words = ::testing::PrintToString(command);
    std::filesystem::remove_all(folder / "o");
    std::filesystem::create_directories(folder / "o");
    const auto limit = "ulimit -f " + std::to_string(kilobytes) + " && exec \"$@\"";
    const auto run = Program(folder, command, "", {"/bin/bash", "-c", limit, "bash"}).wait();
    EXPECT_EQ(run.exit_code, 3) << words << run.err;
    EXPECT_NE(run.err.find("cannot write '" + made), std::string::npos) << words << run.err;
    EXPECT_NE(run.err.find("File too large"), std::string::npos) << words << run.err;
    for (const auto& left : std::filesystem::recursive_directory_iterator(folder / "o")) {
      EXPECT_TRUE(left.is_directory()) << words << left.path();
    }
  }
}

}  // namespace
}  // namespace kvc::test
