// kvc score and kvc rescore as a user runs them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kvc/check.h"
#include "support/program.h"

namespace kvc::test {
namespace {

const std::string kLines = R"({"generation": "The answer is 18.", "gold": "18"}
{"generation": "It is -3", "gold": "3"}
{"generation": "nothing", "gold": "3"}
)";

TEST(ScoreVerb, PrintsEveryExtractorWithItsIntervalAndMissingAnswers) {
  TempFolder folder;
  const auto file = folder.write("g.jsonl", kLines).string();
  const auto run = run_program(folder, {"score", "gsm8k/cot8", file});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  // Wilson: 2 of 3 is 20.77 to 93.85; 1 of 3 is 6.15 to 79.23.
  EXPECT_NE(run.out.find("| gsm8k/cot8 | gear         | accuracy |     66.67 | [20.77, 93.85] |   3 |         1 |"),
            std::string::npos)
      << run.out;
  EXPECT_NE(run.out.find("| gsm8k/cot8 | flexible     | accuracy |     33.33 |  [6.15, 79.23] |   3 |         1 |"),
            std::string::npos)
      << run.out;
}

TEST(ScoreVerb, PrintsOneJsonObject) {
  TempFolder folder;
  const auto file = folder.write("g.jsonl", kLines).string();
  const auto run = run_program(folder, {"score", "gsm8k/cot8", file, "--json", "--extractor", "flexible"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json, (nlohmann::json{{"task", "gsm8k/cot8"},
                                  {"metric", "accuracy"},
                                  {"extractor", "flexible"},
                                  {"score", 100.0 / 3},
                                  {"n", 3},
                                  {"n_no_answer", 1},
                                  {"per_sample", {1.0, 0.0, 0.0}}}));
}

TEST(ScoreVerb, PrintsTheScoreOfEachLine) {
  TempFolder folder;
  const auto file = folder.write("g.jsonl", kLines).string();
  const auto run = run_program(folder, {"score", "gsm8k/cot8", file, "--per-sample", "--extractor", "gear"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "1\t1\t'18'\n2\t1\t'3'\n3\t0\tno answer\n"
            "gsm8k/cot8, gear: 66.67 % [20.77, 93.85], n 3, no answer 1\n");
}

TEST(ScoreVerb, OneBadFileOfASuiteDoesNotStopTheOthers) {
  TempFolder folder;
  folder.write("preds/qasper.jsonl", "{\"pred\": \"a b\", \"answers\": [\"b\"]}\n");
  folder.write("preds/musique.jsonl", "{\"pred\": \"a b\"}\n");
  folder.write("preds/hotpotqa.jsonl", "{\"pred\": \"c\", \"answers\": [\"b\"]}\n");
  const auto run = run_program(folder, {"score", "longbench", (folder / "preds").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("musique.jsonl:1:1: error: missing field 'answers'; the line has: pred"), std::string::npos);
  EXPECT_NE(run.out.find("| longbench/qasper "), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("| longbench/hotpotqa "), std::string::npos) << run.out;
}

TEST(ScoreVerb, ChoicesAreScoredByTheirLikelihoods) {
  TempFolder folder;
  const auto line = [](int id, int target) {
    return concat(R"({"doc_id": )", id, R"(, "target": ")", target,
                  R"(", "resps": [[["-1.5", "False"]], [["-2.0", "True"]]])",
                  R"(, "arguments": {"gen_args_0": {"arg_1": " a"}, "gen_args_1": {"arg_1": " abcd"}}})", "\n");
  };
  const auto file = folder.write("s.jsonl", line(0, 0) + line(1, 1) + line(2, 1)).string();
  auto run = run_program(folder, {"score", "piqa/validation", file});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("| piqa/validation | acc       | accuracy |     33.33 |"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("| piqa/validation | acc_norm  | accuracy |     66.67 |"), std::string::npos) << run.out;
  run = run_program(folder, {"score", "piqa/validation", file, "--extractor", "mean_nll"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("task 'piqa/validation': unknown score 'mean_nll'"), std::string::npos) << run.err;
  run = run_program(folder, {"score", "icl/rte/0", file});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "kvc: task 'icl/rte/0': its scores mean_nll, mean_nll_calibrated need token counts, which samples of "
            "log-likelihoods do not have\n");
}

TEST(ScoreVerb, LinesOfOtherFiltersAreLeftOutAndCounted) {
  TempFolder folder;
  const auto line = [](const char* answer, const char* filter) {
    return concat(R"({"doc_id": 0, "doc": {"answer": "#### 5"}, "target": "5", "resps": [["#### )", answer,
                  R"("]], "filter": ")", filter, "\"}\n");
  };
  const auto file = folder.write("s.jsonl", line("5", "a") + line("5", "b") + line("7", "a") + line("7", "b")).string();
  const auto run = run_program(folder, {"score", "gsm8k/shot5", file, "--extractor", "strict", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "kvc: " + file + ": 2 samples; 2 lines left out: other filters of the same responses\n");
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["n"], 2);
  EXPECT_EQ(json["score"], 50);
}

TEST(ScoreVerb, UnknownNamesAreRefusedInOneLine) {
  TempFolder folder;
  const auto file = folder.write("g.jsonl", kLines).string();
  auto run = run_program(folder, {"score", "gsm8k/cot9", file});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err.find("kvc: unknown task 'gsm8k/cot9' (did you mean 'gsm8k/cot8'?); "), 0u) << run.err;
  EXPECT_LT(run.err.size(), 250u) << run.err;  // not three hundred names
  run = run_program(folder, {"score", "gsm8k/cot8", file, "--extractor", "gaer"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.err,
            "kvc: task 'gsm8k/cot8': unknown extractor 'gaer' (did you mean 'gear'?); known: gear, flexible, strict, "
            "first_answer\n");
  run = run_program(folder, {"score", "gsm8k/cot8", (folder / "none.jsonl").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("No such file"), std::string::npos) << run.err;
}

TEST(RescoreVerb, AStoredRunScoredAgainIsTheSame) {
  TempFolder folder;
  const auto experiment = folder.write("e.yaml", small_experiment("  - full\n")).string();
  const auto db = (folder / "r.sqlite").string();
  ASSERT_EQ(run_program(folder, {"run", experiment, "--db", db}).exit_code, 0);
  const std::string all = "SELECT * FROM score ORDER BY cell_key, sample, extractor";
  const auto before = run_program(folder, {"query", "--db", db, all}).out;
  auto run = run_program(folder, {"rescore", db});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("| demo/truth  |     1 |       3 |              0 |      0 |"), std::string::npos) << run.out;
  EXPECT_EQ(run_program(folder, {"query", "--db", db, all}).out, before);
  run = run_program(folder, {"rescore", db, "--task", "demo/thruth"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("unknown task 'demo/thruth' (did you mean 'demo/truth'?)"), std::string::npos) << run.err;
  run = run_program(folder, {"rescore", (folder / "none.sqlite").string()});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("no such file"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace kvc::test
