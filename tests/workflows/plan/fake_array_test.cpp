// The scripts of a plan under a batch system that a script plays: every element one behind the other.
#include "grid_fixture.h"

namespace kvc::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeSlurm : public GridTest {
 protected:
  FakeSlurm() {
    for (const char* name : {"bin/sbatch", "bin/scontrol"}) {
      folder.write(name, read_file(KVC_SOURCE_DIR "/tests/workflows/plan/fake_sbatch.sh"));
      std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
    }
    std::filesystem::create_directories(folder / "slurm");
  }

  void signal(int shard, int restart, const std::string& name) {
    folder.write("slurm/signal-" + std::to_string(shard) + "-" + std::to_string(restart), name);
  }

  // The submitting script -> what was started, a line each.
  std::string submit() {
    const auto command = "cd / && PATH=" + (folder / "bin").string() +
                         ":$PATH FAKE_SLURM=" + (folder / "slurm").string() + " bash " +
                         (folder / "grid.submit.sh").string() + " > " + (folder / "said").string() + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_file(folder / "said");
    return read_file(folder / "slurm/jobs.txt");
  }

  std::string log(int shard) { return read_file(planned.log_of(static_cast<size_t>(shard))); }
};

TEST_F(FakeSlurm, DisturbedElementsGoBackIntoTheQueueAndNothingIsLost) {
  const auto clusters = folder.write("clusters.yaml", "north: {max_array: 3, throttle: 2}\n");
  plan({"--shards", "4", "--cluster", "north", "--clusters", clusters.string()});
  signal(0, 0, "TERM");
  signal(1, 0, "KILL");
  signal(3, 0, "USR1");
  const auto started = submit();
  for (const char* line : {"shard 0 restart 1 code 0", "shard 1 restart 1 code 0", "shard 2 restart 0 code 0",
                           "shard 3 restart 1 code 0"}) {
    EXPECT_THAT(started, HasSubstr(line)) << log(0) << log(1);
  }
  EXPECT_THAT(log(0), HasSubstr("shard 0 ended with 75 and goes back into the queue"));
  EXPECT_THAT(log(1), HasSubstr("shard 1 ended with 137 and goes back into the queue"));
  EXPECT_THAT(log(2), Not(HasSubstr("goes back")));
  EXPECT_THAT(log(3), HasSubstr("shard 3 ended with 75 and goes back into the queue"));
  EXPECT_THAT(started, HasSubstr("--dependency=afterany:101:102"));
  ASSERT_EQ(read_file(folder / "slurm/wrap.code"), "0\n") << read_file(folder / "slurm/wrap.log");
  EXPECT_EQ(dump(folder / "grid.sqlite"), undisturbed());
}

TEST_F(FakeSlurm, AnElementIsRestartedNoMoreThanTheClusterSays) {
  const auto clusters = folder.write("clusters.yaml", "north: {restarts: 1}\n");
  plan({"--shards", "1", "--cluster", "north", "--clusters", clusters.string()});
  for (const int restart : {0, 1, 2}) signal(0, restart, "USR1");
  const auto started = submit();
  EXPECT_THAT(started, HasSubstr("shard 0 restart 1 code 75"));
  EXPECT_THAT(started, Not(HasSubstr("restart 2")));
  EXPECT_THAT(log(0), HasSubstr("shard 0 ended with 75 and was restarted 1 times: no more"));
}

TEST_F(FakeSlurm, WhatWouldFailAgainIsNotStartedAgain) {
  plan({"--shards", "1"}, 1);
  std::filesystem::remove(experiment);
  EXPECT_THAT(submit(), HasSubstr("shard 0 restart 0 code 2\nwrap"));
  EXPECT_THAT(log(0), Not(HasSubstr("goes back")));
  const auto status = run_program(folder, {"status", file.string()});
  EXPECT_EQ(status.exit_code, 0);
  EXPECT_THAT(status.out, HasSubstr("shard 0 failed on "));
  EXPECT_THAT(status.out, HasSubstr("small.yaml"));
}

}  // namespace
}  // namespace kvc::test
