// `kvc compare` and `kvc power` as a user calls them: tables, exit codes, one line for each refusal.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

// full answers ten questions, low the first `n_right` of them.
std::string make_database(const TempFolder& folder, int64_t n_right) {
  const auto path = folder / "r.sqlite";
  auto store = ResultStore::open(path);
  for (const std::string plugin : {"full", "low"}) {
    CellRecord cell;
    cell.key = cell.plugin = plugin;
    cell.experiment = "trial";
    cell.model_label = "tiny";
    cell.task = "t/a";
    cell.options_json = R"({"bits":2})";
    cell.n_samples = 10;
    store.put_cell(cell);
    for (int64_t i = 0; i < 10; ++i) {
      SampleRecord sample;
      sample.cell_key = plugin;
      sample.sample = i;
      sample.status = "ok";
      sample.scores = {{"number", "4", plugin == "full" || i < n_right ? 1.0 : 0.0}};
      store.put_sample(sample);
    }
  }
  return path.string();
}

TEST(CompareVerb, PrintsTheTableAndFailsAGate) {
  const TempFolder folder;
  const auto path = make_database(folder, 3);
  for (const char* low : {"low bits=2", "low: {bits: 2}"}) {
    const auto same = run_program(folder, {"compare", path, "full", low, "--format", "csv"});
    EXPECT_EQ(same.exit_code, 0) << low << ": " << same.err;
  }
  const auto shown = run_program(folder, {"compare", path, "full", "low bits=2", "--format", "csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\nlow bits=2,t/a,10,100,30,-70,"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find(",McNemar (exact),0.015625,0.015625,7,0,0,0,0,0,0,0,0,100,\r\n"), std::string::npos)
      << shown.out;

  const auto gated = run_program(folder, {"compare", "--db", path, "--baseline", "full", "--fail-if-worse-by", "0.5"});
  EXPECT_EQ(gated.exit_code, 5);
  EXPECT_EQ(gated.err,
            "worse: low bits=2 on t/a: 70.00 points below full bits=2, p (Holm) 0.0156; allowed: 0.5 points\n");
}

TEST(CompareVerb, PassesAGateThatHolds) {
  const TempFolder folder;
  const auto path = make_database(folder, 5);  // 5:0 has p = 0.0625
  const auto gated = run_program(folder, {"compare", path, "full", "low", "--fail_if_worse_by", "0.5"});
  EXPECT_EQ(gated.exit_code, 0);
  EXPECT_EQ(gated.err, "");
}

TEST(CompareVerb, RefusesInOneLine) {
  const TempFolder folder;
  const auto path = make_database(folder, 3);
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compare");
    const auto finished = run_program(folder, arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    return finished.err;
  };
  EXPECT_EQ(
      error({path}),
      "kvc: which compressors of '" + path +
          "'? allowed: two names A and B, --baseline A (with every other), --against DATABASE (the same in both)\n");
  EXPECT_EQ(error({path, "full"}),
            "kvc: compare 'full': compared with what? allowed: a second name, --baseline, --against\n");
  EXPECT_EQ(error({path, "full", "lo"}), "kvc: unknown compressor 'lo' (did you mean 'low'?); known: full, low\n");
  EXPECT_EQ(error({path, "full", "low: {bitz: 2}"}).substr(0, 35), "kvc: unknown option of low 'bitz' (");
  EXPECT_EQ(error({path, "full", "low: {bits: [2, 4]}"}),
            "kvc: compressor: 'low: {bits: [2, 4]}' is 2 compressors, expected one plugin: NAME, or 'NAME: {option: "
            "value}'\n");
  EXPECT_EQ(error({path, "full", "low", "bits=2"}),
            "kvc: compare: 3 names, allowed: A and B; quote a name with options\n");
  EXPECT_EQ(error({path, "--baseline", "full", "low"}),
            "kvc: --baseline 'full' is A, and all others are B; unexpected name 'low'\n");
}

TEST(PowerVerb, SaysWhatNSamplesCanShow) {
  const TempFolder folder;
  const auto shown = run_program(folder, {"power", "--n", "254", "--difference", "5", "--format", "csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\r\n254,20,McNemar (exact),8."), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find(",628\r\n"), std::string::npos) << shown.out;  // (2.80159 / 0.05)^2 0.2 = 627.9
  EXPECT_EQ(run_program(folder, {"power"}).err,
            "kvc: power: the number of samples is missing; allowed: --n, --task, --difference, a database\n");
  const auto of_task = run_program(folder, {"power", "--task", "demo/truth", "--format", "csv"});
  EXPECT_NE(of_task.out.find("\r\ndemo/truth,"), std::string::npos) << of_task.out << of_task.err;
}

TEST(PowerVerb, MeasuresWhatADatabaseHolds) {
  const TempFolder folder;
  const auto shown = run_program(folder, {"power", make_database(folder, 3), "full", "low", "--format", "csv"});
  EXPECT_NE(shown.out.find("\r\nlow bits=2,t/a,10,70,McNemar (exact),"), std::string::npos) << shown.out << shown.err;
  EXPECT_NE(shown.out.find(",-70,"), std::string::npos) << shown.out;  // all discordant pairs went one way
  const auto other =
      run_program(folder, {"power", make_database(folder, 3), "full", "low", "--task", "t/b", "--format", "csv"});
  EXPECT_NE(other.err.find("unknown task 't/b'"), std::string::npos) << other.out << other.err;
}

}  // namespace
}  // namespace kvc::test
