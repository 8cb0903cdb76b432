// A plan on a real Slurm: its controller and two of its nodes on this host. Skipped where Debian's packages slurmctld,
// slurmd and slurm-client are not installed, or this is not root.
#include <signal.h>
#include <unistd.h>

#include <sstream>

#include "grid_fixture.h"
#include "kvc/check.h"
#include "plan/run_shard.h"

namespace kvc::test {
namespace {

using testing::HasSubstr;

class SlurmCluster : public GridTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "not root: slurmd starts jobs as other users";
    if (shell("command -v slurmctld-wlm slurmd-wlm sbatch") != 0) GTEST_SKIP() << "no slurmctld, slurmd or sbatch";
    ASSERT_EQ(shell("bash " KVC_SOURCE_DIR "/tests/workflows/plan/slurm_cluster.sh start " + slurm + " " + port()), 0);
    ::setenv("SLURM_CONF", (slurm + "/slurm.conf").c_str(), 1);
    const bool is_up = wait_for([&] { return said("sinfo -h -o '%D %t'") == "2 idle\n"; }, 120);
    if (!is_up) GTEST_SKIP() << "Slurm's own daemons do not start here: " << said("sinfo");
  }
  void TearDown() override {
    if (!std::filesystem::exists(slurm)) return;
    shell("scancel --user=root; sleep 1");
    shell("bash " KVC_SOURCE_DIR "/tests/workflows/plan/slurm_cluster.sh stop " + slurm);
    ::unsetenv("SLURM_CONF");
  }

  static std::string port() { return std::to_string(20'000 + ::getpid() % 10'000 * 4); }
  int shell(const std::string& command) { return std::system((command + " > " + out + " 2>&1").c_str()); }
  std::string said(const std::string& command) { return shell(command), read_file(out); }

  std::string log(size_t shard) {
    const auto file = planned.log_of(shard);
    return std::filesystem::exists(file) ? read_file(file) : "";
  }
  pid_t pid_of(size_t shard) { return static_cast<pid_t>(state_of(shard).pid); }
  // Has been sent the signal, and did not look at it yet.
  static bool is_told(pid_t process, int signal) {
    std::istringstream lines(read_file(concat("/proc/", process, "/status")));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("ShdPnd:")) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
    }
    return false;
  }

  // What was put back waits for two minutes, unless it is told not to.
  void hurry() { shell("for job in $(squeue -h -r -t PD -o %A); do scontrol update JobId=$job StartTime=now; done"); }

  std::string slurm = (folder / "slurm").string(), out = (folder / "said").string();
};

TEST_F(SlurmCluster, KilledStoppedAndSignalledShardsMergeToTheRunWithoutSlurm) {
  const auto clusters = folder.write("clusters.yaml", "here: {max_array: 4, time: \"2\", signal_seconds: 10}\n");
  plan({"--shards", "6", "--cluster", "here", "--clusters", clusters.string()}, 40);
  ASSERT_EQ(planned.shards.size(), 6u);
  ASSERT_EQ(shell("bash " + (folder / "grid.submit.sh").string()), 0) << read_file(out);

  ASSERT_TRUE(wait_for([&] { return at_work(0); }, 240)) << said("squeue; scontrol show node");
  ::kill(pid_of(0), SIGKILL);
  ASSERT_TRUE(wait_for([&] { return log(0).find("ended with 137") != std::string::npos; }, 120)) << log(0);

  // Slurm's own signal before a limit of a minute, whose shard stands still until it has come.
  ASSERT_TRUE(wait_for([&] { return at_work(1); }, 240)) << said("squeue");
  const auto limited = pid_of(1);
  ::kill(limited, SIGSTOP);
  const auto of_shard_1 = [&](const char* field) {
    return said(concat("squeue -h -r -t R -o '%K ", field, "' | awk '$1 == 1 {printf \"%s\", $2}'"));
  };
  const auto job = of_shard_1("%A");
  ASSERT_EQ(shell("scontrol update TimeLimit=1 JobId=" + job), 0) << read_file(out);

  // Meanwhile the other node is gone: its daemon, and all that it had started.
  const std::string lost = of_shard_1("%N") == "n1" ? "n2" : "n1";
  ASSERT_TRUE(wait_for([&] { return !said("squeue -h -t R -o %A -w " + lost).empty(); }, 60)) << said("squeue");
  ASSERT_EQ(shell("bash " KVC_SOURCE_DIR "/tests/workflows/plan/slurm_cluster.sh lose " + slurm + " " + lost), 0)
      << read_file(out);

  const bool was_told = wait_for([&] { return is_told(limited, SIGUSR1); }, 200);
  ::kill(limited, SIGCONT);
  ASSERT_TRUE(was_told) << said("scontrol show job " + job);
  ASSERT_TRUE(wait_for([&] { return log(1).find("ended with 75") != std::string::npos; }, 120)) << log(1);
  shell("scontrol update TimeLimit=2 JobId=" + job);

  const auto merged = folder / "grid.sqlite";
  const bool has_ended = wait_for([&] { return hurry(), said("squeue -h").empty(); }, 600);
  EXPECT_TRUE(has_ended) << said("squeue; sinfo");
  const auto status = run_program(folder, {"status", file.string()});
  EXPECT_THAT(status.out, HasSubstr("6 shards: 6 done")) << status.out << log(0) << log(1);
  ASSERT_TRUE(std::filesystem::exists(merged)) << said("cat " + planned.folder + "/logs/merge.log");
  EXPECT_EQ(dump(merged), undisturbed());
}

}  // namespace
}  // namespace kvc::test
