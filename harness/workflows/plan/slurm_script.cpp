#include "plan/slurm_script.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

std::string option(const std::string& name, const std::string& value) {
  return value.empty() ? "" : concat("#SBATCH --", name, "=", value, "\n");
}

// In an #SBATCH line, where a blank ends a value that is not in quotes, and % names what Slurm knows.
std::string in_directive(const std::string& path) {
  return path.find_first_of(" \t") == std::string::npos ? path : concat("\"", path, "\"");
}

std::string directives(const Plan& plan, const Cluster& cluster, const std::string& time) {
  return concat(option("job-name", in_directive("kvc-" + plan.name)),
                option("output", in_directive(plan.folder + "/logs/slurm-%A_%a.log")), "#SBATCH --open-mode=append\n",
                "#SBATCH --requeue\n", option("signal", concat("B:USR1@", cluster.signal_seconds)),
                "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n", option("cpus-per-task", concat(cluster.cpus)),
                option("time", time.empty() ? cluster.time : time), option("mem", cluster.memory),
                option("partition", cluster.partition), option("account", cluster.account), option("qos", cluster.qos));
}

std::string set_up(const Cluster& cluster) {
  std::string text;
  for (const auto& module : cluster.modules) text += concat("module load ", shell_word(module), "\n");
  for (const auto& line : cluster.lines) text += line + "\n";
  return text;
}

std::string exports(const ScriptPlace& place) {
  std::string text;
  for (const auto& [name, value] : place.environment) text += concat("export ", name, "=", shell_word(value), "\n");
  return text;
}

constexpr const char* kRunOfShard = R"sh(
shard=$((SLURM_ARRAY_TASK_ID + ${KVC_SHARD_OFFSET:-0}))
mkdir -p "$folder/logs"
exec >>"$folder/logs/shard-$shard.log" 2>&1
echo "shard $shard of $shards on $(hostname), job ${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID," \
  "restart ${SLURM_RESTART_COUNT:-0}, $(date -u +%FT%TZ)"

"$kvc" run --plan "$plan" --shard "$shard/$shards" &
pid=$!
trap 'kill -USR1 "$pid" 2>/dev/null' USR1
trap 'kill -TERM "$pid" 2>/dev/null' TERM
while true; do # a trap ends a wait before kvc has ended
  wait "$pid"
  kill -0 "$pid" 2>/dev/null || break
done
wait "$pid"
code=$?

# 75: told to stop, and what was done is there. 137: killed, for its memory or by hand. All else would fail again.
if [ "$code" = 75 ] || [ "$code" = 137 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -lt "$restarts" ]; then
    echo "shard $shard ended with $code and goes back into the queue"
    if scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; then exit 0; fi
  else
    echo "shard $shard ended with $code and was restarted $restarts times: no more"
  fi
fi
exit "$code"
)sh";

// Indexes [first, first + n) of one sbatch call.
struct Piece {
  const PlannedArray* array;
  size_t offset, n;
};

std::vector<Piece> pieces_of(const Plan& plan, const Cluster& cluster) {
  std::vector<Piece> pieces;
  const auto most = static_cast<size_t>(cluster.max_array);
  for (const auto& array : plan.arrays) {
    for (size_t done = 0; done < array.n; done += most) {
      pieces.push_back({&array, array.first + done, std::min(most, array.n - done)});
    }
  }
  return pieces;
}

std::string submit_line(const Piece& piece, const Cluster& cluster) {
  std::vector<std::string> words{
      "sbatch", "--parsable",
      concat("--array=0-", piece.n - 1, cluster.throttle > 0 ? concat("%", cluster.throttle) : std::string())};
  words.push_back(concat("--export=ALL,KVC_SHARD_OFFSET=", piece.offset));
  for (const auto& one : cluster.classes) {
    if (one.name != piece.array->memory_class) continue;
    if (!one.partition.empty()) words.push_back(shell_word("--partition=" + one.partition));
    if (!one.constraint.empty()) words.push_back(shell_word("--constraint=" + one.constraint));
    if (!one.gres.empty()) words.push_back(shell_word("--gres=" + one.gres));
  }
  return concat("submit ", join({words.begin() + 2, words.end()}, " "));
}

std::string merge_lines(const Plan& plan, const ScriptPlace& place, const Cluster& cluster) {
  std::vector<std::string> words{"sbatch",
                                 "--parsable",
                                 "--dependency=\"afterany$jobs\"",
                                 shell_word("--job-name=kvc-merge-" + plan.name),
                                 shell_word("--output=" + plan.folder + "/logs/merge.log"),
                                 "--open-mode=append"};
  if (!cluster.partition.empty()) words.push_back(shell_word("--partition=" + cluster.partition));
  if (!cluster.account.empty()) words.push_back(shell_word("--account=" + cluster.account));
  if (!cluster.qos.empty()) words.push_back(shell_word("--qos=" + cluster.qos));
  std::string command;
  for (const auto& line : cluster.modules) command += concat("module load ", shell_word(line), "; ");
  for (const auto& line : cluster.lines) command += line + "; ";
  command += concat(shell_word(place.program), " merge ", shell_word(place.merged), " ", shell_word(plan.folder),
                    "/shard-*.sqlite");
  words.push_back("--wrap=" + shell_word(command));
  return concat("merge=$(", join(words, " "), ")\n");
}

}  // namespace

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("_./=:,@%+-").find(c) != std::string::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string array_script(const Plan& plan, const ScriptPlace& place, const Cluster& cluster, const std::string& time) {
  return concat("#!/bin/bash\n", directives(plan, cluster, time), "# One shard of a plan: a task of an array that ",
                "the submit script in this folder hands to sbatch.\n", set_up(cluster), exports(place),
                "kvc=", shell_word(place.program), "\nplan=", shell_word(place.plan),
                "\nfolder=", shell_word(plan.folder), "\nshards=", plan.shards.size(), "\nrestarts=", cluster.restarts,
                "\n", kRunOfShard);
}

std::string submit_script(const Plan& plan, const ScriptPlace& place, const Cluster& cluster) {
  auto text = concat("#!/bin/bash\n# Submits ", plan.shards.size(), " shards of ", plan.cells.size(),
                     " cells, and a job that merges them afterwards.\nset -euo pipefail\n", exports(place),
                     "folder=", shell_word(plan.folder), "\nscript=", shell_word(place.array_script),
                     "\nmkdir -p \"$folder/logs\"\n");
  if (!place.fetched.empty()) {
    text += "\n# Once, before a hundred nodes look for them.\n";
    for (const auto& model : place.fetched) {
      text += concat(shell_word(place.program), " model get ", shell_word(model), "\n");
    }
  }
  text +=
      "\njobs=\nsubmit() { # an array: sbatch's options\n  local job\n  job=$(sbatch --parsable \"$@\" \"$script\")\n"
      "  jobs+=:${job%%;*}\n}\n";
  for (const auto& piece : pieces_of(plan, cluster)) text += submit_line(piece, cluster) + "\n";
  text += merge_lines(plan, place, cluster);
  return text + "echo \"submitted ${jobs//:/ } and, after them, the merge ${merge%%;*}\"\n";
}

}  // namespace kvc
