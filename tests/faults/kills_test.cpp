// `kill -9` of a command or of a process that it has started, at any moment: the same command ends as if undisturbed.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "faults/work.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

constexpr int kTogether = 4;  // kills of one database, before it is brought to its end

int n_kills(int of_all) { return amount() == Amount::all ? of_all : amount() == Amount::slow ? of_all / 20 : 4; }

std::mt19937& dice() {
  static std::mt19937 dice(20);  // the moments differ from run to run with the machine's speed, the seed does not
  return dice;
}
double up_to(double most) { return std::uniform_real_distribution<double>(0, most)(dice()); }

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// What the process has started, and what those have.
std::vector<pid_t> descendants(pid_t process) {
  std::vector<pid_t> found;
  for (std::vector<pid_t> open{process}; !open.empty();) {
    const auto pid = open.back();
    open.pop_back();
    std::ifstream children(concat("/proc/", pid, "/task/", pid, "/children"));
    for (pid_t child; children >> child;) {
      found.push_back(child);
      open.push_back(child);
    }
  }
  return found;
}

struct Kills {
  std::string work;
  int n;  // with KVC_TEST_FAULTS=all
};
void PrintTo(const Kills& kills, std::ostream* out) { *out << kills.n << " of " << kills.work; }

class Killed : public testing::TestWithParam<Kills> {
 protected:
  // -> whether something was killed
  bool kill_once(const Work& work, double seconds) {
    Program program(place().folder, work.arguments);
    sleep_for(up_to(seconds));
    const auto children = descendants(program.pid());
    const bool of_child = !children.empty() && up_to(1) < 0.5;
    const auto victim =
        of_child ? children[static_cast<size_t>(up_to(1) * static_cast<double>(children.size()))] : program.pid();
    const bool killed = ::kill(victim, SIGKILL) == 0;
    const auto ended = program.wait();
    if (of_child) {
      EXPECT_EQ(unfit_end(ended), "");
    }
    return killed && (of_child || ended.signal == SIGKILL);
  }
};

TEST_P(Killed, AtAnyMomentItLosesNothing) {
  const auto& work = place().work(GetParam().work);
  const auto whole = place().undisturbed(work);
  const int n_all = n_kills(GetParam().n);
  for (int n = 0; n < n_all;) {
    place().begin(work);
    auto stored = place().finished();
    for (int i = 0; i < kTogether && n < n_all; ++i) {
      n += kill_once(work, 0.95 * whole.seconds);
      const auto now = place().finished();
      EXPECT_TRUE(std::ranges::includes(now, stored)) << "kill " << n << " lost a stored row";
      stored = now;
    }
    const auto last = run_program(place().folder, work.arguments);
    EXPECT_EQ(last.exit_code, 0) << last.err;
    EXPECT_TRUE(std::ranges::includes(place().finished(), stored)) << "after kill " << n << " a row was lost";
    ASSERT_EQ(place().left(work), whole.left) << "after kill " << n;
  }
}
INSTANTIATE_TEST_SUITE_P(Moments, Killed,
                         testing::Values(Kills{"fresh", 400}, Kills{"sizes", 100}, Kills{"rescore", 200},
                                         Kills{"import", 150}, Kills{"search", 150}),
                         [](const auto& info) { return info.param.work; });

// Databases merge row by row, as their keys are hashes of what can change a row.
void merge(const fs::path& from, const fs::path& into) {
  auto store = ResultStore::open(into);
  auto& db = store.database();
  db.execute("ATTACH '" + from.string() + "' AS other");
  Transaction transaction(db);
  std::vector<std::string> tables;
  auto select =
      db.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY rowid");
  while (select.step()) tables.push_back(select.text(0));
  for (const auto& table : tables) db.execute("INSERT OR IGNORE INTO main." + table + " SELECT * FROM other." + table);
  transaction.commit();
}

TEST(KilledMerge, LeavesBothDatabasesWhole) {
  const Work work{"merge", {}, "half.sqlite", ""};
  const auto whole = place().folder / "whole.sqlite";
  place().begin(work);
  const auto start = std::chrono::steady_clock::now();
  merge(whole, place().database);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto undisturbed = place().left(work);
  for (int n = 0; n < n_kills(100); ++n) {
    place().begin(work);
    const auto stored = place().finished();
    const pid_t child = ::fork();
    if (child == 0) {
      merge(whole, place().database);
      ::_exit(0);
    }
    sleep_for(up_to(seconds));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(std::ranges::includes(place().finished(), stored)) << "kill " << n << " lost a stored row";
    merge(whole, place().database);
    ASSERT_EQ(place().left(work), undisturbed) << "after kill " << n;
  }
}

}  // namespace
}  // namespace kvc::test
