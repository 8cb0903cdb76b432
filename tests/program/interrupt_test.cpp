// Whatever ends a run early: nothing stored is lost, nothing doubled, and one line says what it was.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>

#include "stored.h"

namespace kvc::test {
namespace {

class DisturbedRun : public ::testing::Test {
 protected:
  explicit DisturbedRun(int limit = 10) : limit(limit) {}
  // The same run, never disturbed.
  std::string undisturbed() {
    const auto database = folder / "undisturbed.sqlite";
    EXPECT_EQ(run_program(folder, {"run", file, "--db", database.string()}).exit_code, 0);
    return dump(database);
  }

  const int limit;  // of samples: 2 tasks, 2 compressors
  TempFolder folder;
  std::string file = folder.write("small.yaml", small_experiment(kFullAndKivi, limit)).string();
  std::filesystem::path database = folder / "r.sqlite";
};

class RunOfThirty : public DisturbedRun {  // whose database is larger than the files that may be written
 protected:
  RunOfThirty() : DisturbedRun(30) {}
};

class Interrupted : public DisturbedRun, public ::testing::WithParamInterface<int> {};

TEST_P(Interrupted, EndsWithItsSignalAndTheSameCommandGoesOn) {
  Program program(folder, {"run", file, "--db", database.string(), "--set", "batch_size=1"});
  wait_for_rows(database, "sample", 3);
  program.signal_group(GetParam());
  const auto ended = program.wait();
  EXPECT_EQ(ended.exit_code, 128 + GetParam()) << ended.err;
  EXPECT_EQ(n_lines_of_kvc(ended.err), 1) << ended.err;
  EXPECT_NE(ended.err.find("kvc: interrupted; finished samples are in " + database.string() +
                           "; run the same command to resume"),
            std::string::npos)
      << ended.err;
  EXPECT_EQ(ended.err.find("failed:"), std::string::npos) << ended.err;
  const auto stored = n_samples(database);
  EXPECT_GE(stored, 3);
  EXPECT_LT(stored, 4 * limit);
  const auto rest = run_program(folder, {"run", file, "--db", database.string()});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_NE(rest.err.find(std::to_string(4 * limit - stored) + " samples run now (0 failed), " +
                          std::to_string(stored) + " already stored"),
            std::string::npos)
      << rest.err;
  EXPECT_EQ(dump(database), undisturbed());
}
INSTANTIATE_TEST_SUITE_P(Signals, Interrupted, ::testing::Values(SIGINT, SIGTERM));

TEST_F(DisturbedRun, TwoAtATimeOnOneDatabaseDoubleNothing) {
  const TempFolder other;
  Program first(folder, {"run", file, "--db", database.string()});
  Program second(other, {"run", file, "--db", database.string()});
  const auto a = first.wait(), b = second.wait();
  EXPECT_EQ(a.exit_code, 0) << a.err;
  EXPECT_EQ(b.exit_code, 0) << b.err;
  EXPECT_EQ(n_samples(database), 4 * limit);
  EXPECT_EQ(dump(database), undisturbed());
}

TEST_F(RunOfThirty, AFileSizeLimitIsOneLineAndLosesNothing) {
  const auto ended = Program(folder, {"run", file, "--db", database.string()}, "",
                             {"/bin/sh", "-c", "ulimit -f 1000; exec \"$0\" \"$@\""})  // of 512 bytes each
                         .wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_EQ(n_lines_of_kvc(ended.err), 1) << ended.err;
  EXPECT_NE(ended.err.find("kvc: results database '" + database.string() + "': "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("a write was refused (quota, or limit on file size)"), std::string::npos) << ended.err;
  const auto stored = n_samples(database);
  EXPECT_GT(stored, 0);
  EXPECT_LT(stored, 4 * limit);
  const auto rest = run_program(folder, {"run", file, "--db", database.string()});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_NE(rest.err.find(std::to_string(stored) + " already stored"), std::string::npos) << rest.err;
  EXPECT_EQ(dump(database), undisturbed());
}

TEST_F(RunOfThirty, AFullDiskIsOneLineAndLosesNothing) {
  const auto disk = folder / "disk";
  std::filesystem::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0) GTEST_SKIP() << "this user may not mount a tmpfs";
  const auto full = disk / "r.sqlite";
  const auto ended = run_program(folder, {"run", file, "--db", full.string()});
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_EQ(n_lines_of_kvc(ended.err), 1) << ended.err;
  EXPECT_NE(ended.err.find("no space left on the device; everything stored before is safe"), std::string::npos)
      << ended.err;
  const auto stored = n_samples(full);
  EXPECT_GT(stored, 0);
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const auto rest = run_program(folder, {"run", file, "--db", full.string()});
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_NE(rest.err.find(std::to_string(stored) + " already stored"), std::string::npos) << rest.err;
  EXPECT_EQ(dump(full), undisturbed());
  EXPECT_EQ(::umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace kvc::test
