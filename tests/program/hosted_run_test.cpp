// Compressors in processes of their own: the same results, whatever becomes of the processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "store/result_store.h"
#include "support/program.h"
#include "text/files.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompressors =
    "  - full\n  - kivi: {bits: 2, group_size: 32, recent: 64}\n  - snapkv: {capacity: 64}\n  - kvzip\n  - qjl\n"
    "  - chain: [{snapkv: {capacity: 128}}, {token_group: {bits: 4}}]\n"
    "  - rules: {default: {kivi: {bits: 4}}, where: [{layers: 0-1, use: full}, {tensor: v, use: token_group}]}\n"
    "  - sinks: {n: 4, of: {centered: {of: {token_group: {bits: 2}}}}}\n";

std::string experiment(const std::string& isolation, const std::string& compressors, int limit) {
  return small_experiment(compressors, limit) + "isolation: " + isolation + "\n";
}

// What a run says of its samples, without times and peaks.
std::string told(const fs::path& database) {
  auto store = ResultStore::open_readonly(database);
  auto rows = store.database().prepare(
      "SELECT cell_key || '|' || sample || '|' || status || '|' || token_ids_json || '|' || kv_bytes || '|' || k_error"
      " || '|' || v_error || '|' || n_encoded_tokens || '|' || n_encoded_numbers || '|' || recent_bytes FROM sample"
      " ORDER BY cell_key, sample");
  std::string text;
  while (rows.step()) text += rows.text(0) + "\n";
  return text;
}

TEST(HostedRun, EqualsARunInTheWorkersOwnProcess) {
  TempFolder folder;
  for (const std::string isolation : {"none", "process"}) {
    const auto file = folder.write(isolation + ".yaml", experiment(isolation, kCompressors, 6)).string();
    const auto run = run_program(folder, {"run", file, "--db", (folder / (isolation + ".sqlite")).string()});
    EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 5) << run.err;
    EXPECT_THAT(run.err, testing::Not(testing::HasSubstr("left running")));
  }
  EXPECT_EQ(told(folder / "process.sqlite"), told(folder / "none.sqlite"));
  EXPECT_NE(told(folder / "none.sqlite"), "");
}

// As a library's buffers do: they are neither given back with a sequence nor do they grow with each.
TEST(HostedRun, AllowsWhatALibraryKeepsFromTheFirstSequenceOn) {
  TempFolder folder;
  auto text = small_experiment("  - misbehaves: {how: keeps_a_table}\n", 1);
  text.replace(text.find("sizes: []"), 9, "sizes: [512]");
  const auto run = run_program(folder, {"run", folder.write("x.yaml", text), "--db", folder / "r.sqlite"});
  auto store = ResultStore::open_readonly(folder / "r.sqlite");
  EXPECT_EQ(store.database().integer("SELECT count(kv_bytes) FROM cell_size"), 2) << run.err;
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 2) << run.err;
}

// Descendants of the program that run compressors.
std::vector<pid_t> hosts_of(pid_t program) {
  std::vector<pid_t> hosts, parents{program};
  while (!parents.empty()) {
    const auto parent = parents.back();
    parents.pop_back();
    std::error_code error;
    for (const auto& thread : fs::directory_iterator(concat("/proc/", parent, "/task"), error)) {
      std::ifstream children(thread.path() / "children");
      for (pid_t child; children >> child;) {
        parents.push_back(child);
        std::ifstream name(concat("/proc/", child, "/comm"));
        std::string comm;
        name >> comm;
        if (comm == "kvc-host") hosts.push_back(child);
      }
    }
  }
  return hosts;
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

TEST(HostedRun, LosesNothingWhenItsHostsAreKilled) {
  TempFolder folder;
  const std::string compressors = "  - full\n  - kivi: {bits: 2, group_size: 32, recent: 64}\n  - token_group\n";
  const int n_kills = std::getenv("KVC_TEST_MORE") ? 200 : 20;
  const auto calm = folder.write("calm.yaml", experiment("none", compressors, 100)).string();
  EXPECT_EQ(run_program(folder, {"run", calm, "--db", (folder / "calm.sqlite").string()}).exit_code, 0);
  const auto file = folder.write("x.yaml", experiment("process", compressors, 100)).string();
  std::mt19937 random(1);
  int n_killed = 0;
  for (int run = 0; run < 20 && n_killed < n_kills; ++run) {  // what failed twice in a row is computed in the next
    Program program(folder, {"run", file, "--db", (folder / "x.sqlite").string()});
    while (!has_ended(program.pid()) && n_killed < n_kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 400));
      const auto hosts = hosts_of(program.pid());
      if (hosts.size() < 2) continue;
      n_killed += ::kill(hosts[1 + random() % (hosts.size() - 1)], SIGKILL) == 0;
    }
    program.wait();
  }
  run_program(folder, {"run", file, "--db", (folder / "x.sqlite").string()});
  EXPECT_GE(n_killed, n_kills / 2);
  EXPECT_EQ(told(folder / "x.sqlite"), told(folder / "calm.sqlite"));
}

}  // namespace
}  // namespace kvc::test
