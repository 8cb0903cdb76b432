#include "plan/clusters.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "experiment/bench_experiment.h"
#include "kvc/check.h"
#include "text/nearest.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

MachineClass read_class(const std::string& name, const YamlValue& value) {
  MachineClass result;
  result.name = name;
  read_keys(value.map(), [&](YamlKeys& keys) {
    keys.other({"memory", "memory of a machine's GPU, or of the machine", kRequired}, "a size", [&](const auto& given) {
      result.bytes = parse_bytes(given.string());
      if (result.bytes <= 0) given.fail(given.name(), " is '", given.string(), "', expected a size, as 80GB");
    });
    keys.text({"constraint", "feature that sbatch asks for"}, result.constraint);
    keys.text({"gres", "generic resources, e.g. gpu:a100:1"}, result.gres);
    keys.text({"partition", "overrides the cluster's partition"}, result.partition);
  });
  return result;
}

// What stands in a script is one line of it.
void check_lines(const YamlValue& value) {
  for (const auto& one : value.strings()) {
    if (one.find('\n') != std::string::npos) value.fail(value.name(), " has a line break, expected one line each");
  }
}

}  // namespace

int64_t parse_slurm_time(const std::string& text) {
  static const std::regex kForm(
      R"((?:(\d{1,4})-(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}))?)?)|(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?)");
  std::smatch match;
  if (!std::regex_match(text, match, kForm)) return 0;
  const auto number = [&](size_t i) { return match[i].matched ? std::stol(match[i]) : 0L; };
  if (match[1].matched) return ((number(1) * 24 + number(2)) * 60 + number(3)) * 60 + number(4);
  if (match[7].matched) return (number(5) * 60 + number(6)) * 60 + number(7);
  return number(5) * 60 + number(6);
}

void declare_keys(YamlKeys& keys, Cluster& cluster) {
  keys.text({"partition", "partition for jobs"}, cluster.partition);
  keys.text({"account", "account that jobs are charged to"}, cluster.account);
  keys.text({"qos", "quality of service"}, cluster.qos);
  keys.other({"time", "time limit of an array task, as sbatch takes it: \"24:00:00\""}, "a time",
             [&](const YamlValue& value) {
               cluster.time = value.string();
               cluster.seconds = parse_slurm_time(cluster.time);
               if (cluster.seconds <= 0)
                 value.fail(value.name(), " is '", cluster.time, "', expected minutes, H:MM:SS or D-HH:MM:SS");
             });
  keys.text({"memory", "memory of an array task, as sbatch takes it: 64G"}, cluster.memory);
  keys.integer({"cpus", "CPUs per array task"}, cluster.cpus, 1);
  keys.integer({"max_array", "MaxArraySize of `scontrol show config`: larger arrays are split"}, cluster.max_array, 2);
  keys.integer({"throttle", "array tasks that may run at a time; 0: no limit"}, cluster.throttle, 0);
  keys.integer({"signal_seconds", "seconds before the time limit at which a shard is told to stop"},
               cluster.signal_seconds, 10, 65535);
  keys.integer({"restarts", "most restarts of an array task"}, cluster.restarts, 0, 1000);
  const auto lines = [&](const YamlKey& key, std::vector<std::string>& value) {
    keys.other(key, "a list of texts", [&value](const YamlValue& given) {
      check_lines(given);
      value = given.strings();
    });
  };
  lines({"modules", "arguments of `module load`, in order"}, cluster.modules);
  lines({"lines", "lines to copy into the script, before kvc"}, cluster.lines);
  keys.other({"classes", "machines by name, each with memory, constraint, gres, partition"}, "a map",
             [&](const YamlValue& value) {
               for (const auto& [name, one] : value.map().entries()) cluster.classes.push_back(read_class(name, one));
             });
  std::stable_sort(cluster.classes.begin(), cluster.classes.end(),
                   [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
}

Cluster load_cluster(const fs::path& file, const std::string& name) {
  std::vector<std::string> names;
  std::optional<Cluster> found;
  for (const auto& [one, value] : load_yaml(file).map().entries()) {
    Cluster cluster;
    cluster.name = one;
    read_keys(value.map(), [&](YamlKeys& keys) { declare_keys(keys, cluster); });
    if (one == name) found = cluster;
    names.push_back(one);
  }
  KVC_CHECK(found, file.string(), ": ", unknown_name("cluster", name, names));
  return *found;
}

fs::path clusters_file(const std::string& given) {
  if (!given.empty()) return given;
  if (fs::exists("clusters.yaml")) return "clusters.yaml";
  const char* settings = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder = settings && *settings ? fs::path(settings) : fs::path(home ? home : "") / ".config";
  return folder / "kvc" / "clusters.yaml";
}

}  // namespace kvc
