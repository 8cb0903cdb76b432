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
