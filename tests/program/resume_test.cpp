// A run may end at any moment; the same command finishes what is missing and repeats nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "stored.h"
#include "support/more.h"

namespace kvc::test {
namespace {

TEST(Resume, SameCommandAgainRunsNothing) {
  TempFolder folder;
  const auto file = folder.write("small.yaml", small_experiment(kFullAndKivi)).string();
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database}).exit_code, 0) << read_file(folder / "err");
  const auto before = dump(database);
  const auto again = run_program(folder, {"run", file, "--db", database});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 12 already stored"), std::string::npos) << again.err;
  EXPECT_EQ(dump(database), before);
}

TEST(Resume, AHigherLimitRunsOnlyTheNewSamples) {
  TempFolder folder;
  const auto file = folder.write("small.yaml", small_experiment(kFullAndKivi)).string();
  const auto database = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", file, "--db", database, "--limit", "2"}).exit_code, 0);
  const auto more = run_program(folder, {"run", file, "--db", database, "--limit", "3"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("4 samples run now (0 failed), 8 already stored"), std::string::npos) << more.err;
}

// Without where in its file an experiment names a cell.
std::string results(const std::string& database) {
  std::istringstream lines(dump(database));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("experiment_cell ")) kept += line + "\n";
  }
  return kept;
}

// Bits do not depend on what runs beside: one or two workers, compressors together or apart.
TEST(Resume, WorkersAndSweepsChangeNoResult) {
  TempFolder folder;
  const auto together = folder.write("small.yaml", small_experiment(kFullAndKivi)).string();
  const auto first = folder.write("full.yaml", small_experiment("  - full\n")).string();
  const auto second =
      folder.write("kivi.yaml", small_experiment("  - kivi: {bits: 2, group_size: 32, recent: 32}\n")).string();
  const auto a = (folder / "a.sqlite").string(), b = (folder / "b.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", together, "--db", a}).exit_code, 0);
  ASSERT_EQ(run_program(folder, {"run", second, "--db", b, "--set", "workers=2"}).exit_code, 0);
  ASSERT_EQ(run_program(folder, {"run", first, "--db", b, "--set", "threads=2"}).exit_code, 0);
  EXPECT_EQ(results(a), results(b));
}

// From before the first sample is stored until near the end.
TEST(Resume, KilledAtManyMomentsEndsAsIfUndisturbed) {
  constexpr int64_t kSamples = 4 * 30;
  const int64_t n_kills = asks_for_more() ? 20 : 6;
  TempFolder folder;
  const auto file = folder.write("small.yaml", small_experiment(kFullAndKivi, 30)).string();
  const auto undisturbed = folder / "undisturbed.sqlite", killed = folder / "killed.sqlite";
  ASSERT_EQ(run_program(folder, {"run", file, "--db", undisturbed.string()}).exit_code, 0);

  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < n_kills; ++i) numbers.push_back(i * 100 / n_kills);
  const auto left =
      kill_at_rows(folder, {"run", file, "--db", killed.string(), "--set", "batch_size=1"}, killed, "sample", numbers);
  RecordProperty("samples_at_kills", testing::PrintToString(left));
  EXPECT_GE(std::ranges::count_if(left, [&](int64_t n) { return 0 < n && n < kSamples; }), n_kills * 3 / 5)
      << "of " << kSamples << " samples the kills left " << testing::PrintToString(left);

  const auto last = run_program(folder, {"run", file, "--db", killed.string()});
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(dump(killed), dump(undisturbed));
}

}  // namespace
}  // namespace kvc::test
