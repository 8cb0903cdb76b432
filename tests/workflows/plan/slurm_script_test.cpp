#include "plan/slurm_script.h"

#include <stdlib.h>

#include "plan_fixture.h"
#include "text/files.h"

namespace kvc {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan big_plan() {
  auto plan = plan_of({});
  plan.shards.resize(1203);
  plan.arrays = {{"small", 0, 1200}, {"large", 1200, 3}};
  return plan;
}

ScriptPlace place() {
  ScriptPlace place;
  place.program = "/opt/kvc/bin/kvc", place.plan = "/shared/my grid.json";
  place.array_script = "/shared/my grid.sbatch", place.merged = "/shared/my grid.sqlite";
  place.environment = {{"KVC_DATA", "/shared/data"}};
  place.fetched = {"smollm2-135m"};
  return place;
}

Cluster cluster() {
  Cluster cluster;
  cluster.partition = "gpu", cluster.account = "p12", cluster.time = "24:00:00", cluster.cpus = 8;
  cluster.max_array = 501, cluster.throttle = 16, cluster.restarts = 2, cluster.signal_seconds = 90;
  cluster.modules = {"cuda/12.4"}, cluster.lines = {"ulimit -c 0"};
  cluster.classes = {{"small", 24'000'000'000, "a30|a10", "", ""}, {"large", 80'000'000'000, "", "gpu:h100:1", "big"}};
  return cluster;
}

TEST(SlurmScript, BeginsWithWhatTheClusterAsksFor) {
  EXPECT_THAT(array_script(big_plan(), place(), cluster(), ""), testing::StartsWith(R"(#!/bin/bash
#SBATCH --job-name=kvc-grid
#SBATCH --output=/shared/grid/logs/slurm-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@90
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --partition=gpu
#SBATCH --account=p12
# One shard of a plan: a task of an array that the submit script in this folder hands to sbatch.
module load cuda/12.4
ulimit -c 0
export KVC_DATA=/shared/data
kvc=/opt/kvc/bin/kvc
plan='/shared/my grid.json'
folder=/shared/grid
shards=1203
restarts=2
)"));
  EXPECT_THAT(array_script(big_plan(), place(), cluster(), "90"), HasSubstr("#SBATCH --time=90\n"));
}

TEST(SlurmScript, SubmitsArraysThatAreSplitAndByClassAndTheMergeBehindThem) {
  EXPECT_EQ(submit_script(big_plan(), place(), cluster()), R"(#!/bin/bash
# Submits 1203 shards of 0 cells, and a job that merges them afterwards.
set -euo pipefail
export KVC_DATA=/shared/data
folder=/shared/grid
script='/shared/my grid.sbatch'
mkdir -p "$folder/logs"

# Once, before a hundred nodes look for them.
/opt/kvc/bin/kvc model get smollm2-135m

jobs=
submit() { # an array: sbatch's options
  local job
  job=$(sbatch --parsable "$@" "$script")
  jobs+=:${job%%;*}
}
submit --array=0-500%16 --export=ALL,KVC_SHARD_OFFSET=0 '--constraint=a30|a10'
submit --array=0-500%16 --export=ALL,KVC_SHARD_OFFSET=501 '--constraint=a30|a10'
submit --array=0-197%16 --export=ALL,KVC_SHARD_OFFSET=1002 '--constraint=a30|a10'
submit --array=0-2%16 --export=ALL,KVC_SHARD_OFFSET=1200 --partition=big --gres=gpu:h100:1
merge=$(sbatch --parsable --dependency="afterany$jobs" --job-name=kvc-merge-grid --output=/shared/grid/logs/merge.log --open-mode=append --partition=gpu --account=p12 --wrap='module load cuda/12.4; ulimit -c 0; /opt/kvc/bin/kvc merge '\''/shared/my grid.sqlite'\'' /shared/grid/shard-*.sqlite')
echo "submitted ${jobs//:/ } and, after them, the merge ${merge%%;*}"
)");
}

TEST(SlurmScript, OfNoClusterAsksForNothingOfIts) {
  const auto script = array_script(big_plan(), place(), {}, "");
  for (const char* option : {"--partition", "--account", "--qos", "--time", "--mem"})
    EXPECT_THAT(script, Not(HasSubstr(option)));
}

TEST(SlurmScript, PassesShellcheck) {
  if (std::system("shellcheck --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no shellcheck";
  const TempFolder folder;
  folder.write("array.sh", array_script(big_plan(), place(), cluster(), ""));
  folder.write("submit.sh", submit_script(big_plan(), place(), cluster()));
  const auto command = "cd " + folder.string() + " && shellcheck array.sh submit.sh > said 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_file(folder / "said");
}

TEST(SlurmScript, WordsComeThroughTheShellAsTheyAre) {
  const TempFolder folder;
  for (const std::string text : {"plain", "", "a b", "it's", "$HOME `x` \"q\" \\", "*"}) {
    const auto command = "printf %s " + shell_word(text) + " > " + folder.string() + "/out";
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(read_file(folder / "out"), text);
  }
}

}  // namespace
}  // namespace kvc
