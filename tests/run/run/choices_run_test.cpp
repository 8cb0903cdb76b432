// Tasks that choose, from the task file to the rows: likelihoods through the caches.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.h"
#include "store/database.h"
#include "support/places.h"
#include "support/program.h"
#include "task/choices.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

const char* const kTask = R"(version: 1
summary: choices
kind: choices
data: {file: d.jsonl, root: task}
fields: {q: q}
gold: {from: a}
prompt: {template: "{q}", truncate: refuse}
choices:
  texts: [" rope", " ring", " Sam has"]
  content_free: "N/A N/A"
  scores: [acc, acc_norm, mean_nll, mean_nll_calibrated, greedy, log_likelihood]
buckets: [{by: n, below: {short: 10}, rest: long}]
)";
const char* const kContext =
    "Q: Sam has the rope, Kim has the ring, Leo has the coin. What does Sam have?\nA: Sam has the";

class ChoicesRun : public testing::Test {
 protected:
  ChoicesRun() {
    folder_.write("tasks/s/t.yaml", kTask);
    const nlohmann::json a = {{"q", kContext}, {"a", "0"}, {"n", 3}}, b = {{"q", kContext}, {"a", "1"}, {"n", 30}};
    folder_.write("tasks/s/d.jsonl", a.dump() + "\n" + b.dump() + "\n");
    folder_.write("x.yaml", "name: x\nmodel: models/demo\ntasks: [" + (folder_ / "tasks/s/t.yaml").string() +
                                "]\ncompressors:\n  - full\n  - rtn: {bits: 2}\n");
  }
  test::Finished run() {
    return run_program(folder_, {"run", (folder_ / "x.yaml").string(), "--db", (folder_ / "x.sqlite").string()});
  }
  std::vector<ChoiceLikelihood> stored(const std::string& plugin) {
    auto db = Database::open(folder_ / "x.sqlite", Database::Mode::kReadOnly, 1000);
    auto select =
        db.prepare("SELECT generation FROM sample JOIN cell ON cell.key = cell_key WHERE plugin = ? AND sample = 0");
    select.bind(1, plugin);
    return select.step() ? parse_choices_json(select.text(0)) : std::vector<ChoiceLikelihood>{};
  }
  TempFolder folder_;
};

// Each token's log-softmax from one forward pass of the model over context and choice, by the logits verb.
double likelihood_by_logits(const TempFolder& folder, const Tokenizer& tokenizer, const std::string& choice) {
  const auto context = tokenizer.encode(kContext, true), whole = tokenizer.encode(kContext + choice, true);
  folder.write("ids.json", nlohmann::json(whole).dump());
  const auto done = run_program(folder, {"logits", "models/demo", "--ids", (folder / "ids.json").string(), "--output",
                                         (folder / "logits.safetensors").string()});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const auto logits = SafetensorsFile(folder / "logits.safetensors").tensor("logits").to(at::kDouble);
  double sum = 0;
  for (size_t i = context.size(); i < whole.size(); ++i) {
    const auto row = logits[static_cast<int64_t>(i) - 1];
    sum += (row[whole[i]] - row.logsumexp(0)).item<double>();
  }
  return sum;
}

TEST_F(ChoicesRun, FullGivesTheModelsOwnLikelihoods) {
  const auto done = run();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto choices = stored("full");
  ASSERT_EQ(choices.size(), 3u);
  const auto tokenizer = Tokenizer::load(test::kCheckout / "models" / "demo");
  for (const auto& choice : choices) {
    EXPECT_NEAR(choice.log_likelihood, likelihood_by_logits(folder_, tokenizer, choice.text), 1e-3) << choice.text;
    EXPECT_TRUE(choice.content_free_log_likelihood);
  }
  EXPECT_EQ(choices[0].text, " rope");
  EXPECT_EQ(choices[0].n_characters, 4);
  EXPECT_TRUE(choices[0].is_greedy);
}

// One token is scored, and it is the first behind the context: it must depend on what the cache holds all the same.
TEST_F(ChoicesRun, TheFirstTokenIsScoredThroughTheCompressedCache) {
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_GT(std::abs(stored("full")[0].log_likelihood - stored("rtn")[0].log_likelihood), 1e-3);
}

TEST_F(ChoicesRun, ScoresAndBucketsAreRows) {
  ASSERT_EQ(run().exit_code, 0);
  auto db = Database::open(folder_ / "x.sqlite", Database::Mode::kReadOnly, 1000);
  const auto value = [&](int sample, const std::string& score) {
    auto select = db.prepare(
        "SELECT value FROM score JOIN cell ON cell.key = cell_key WHERE plugin = 'full' AND sample = ? AND extractor = "
        "?");
    select.bind(1, int64_t{sample}).bind(2, score);
    return select.step() ? select.real(0) : NAN;
  };
  EXPECT_EQ(value(0, "acc"), 1);
  EXPECT_EQ(value(1, "acc"), 0);
  EXPECT_EQ(value(0, "acc/short"), 1);
  EXPECT_TRUE(std::isnan(value(0, "acc/long")));
  EXPECT_EQ(value(1, "acc/long"), 0);
  EXPECT_EQ(value(0, "greedy"), 1);
  EXPECT_NEAR(value(0, "log_likelihood"), stored("full")[0].log_likelihood, 1e-12);
}

TEST_F(ChoicesRun, RunAgainRepeatsNothing) {
  ASSERT_EQ(run().exit_code, 0);
  const auto again = run();
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << again.err;
}

// Likelihoods are stored: other scores of them need no model. What was not measured is of the key.
TEST_F(ChoicesRun, OtherScoresOfTheLikelihoodsRunNoModel) {
  const auto scores_of = [&] {
    auto db = Database::open(folder_ / "x.sqlite", Database::Mode::kReadOnly, 1000);
    return db.text(
        "SELECT group_concat(extractor || value) FROM (SELECT * FROM score JOIN cell ON key = cell_key"
        " WHERE extractor GLOB 'acc_norm*' ORDER BY plugin, sample, extractor)");
  };
  const std::string all = "[acc, acc_norm, mean_nll, mean_nll_calibrated, greedy, log_likelihood]";
  const std::string task = kTask;
  const auto write = [&](const std::string& changed) { folder_.write("tasks/s/t.yaml", changed); };
  ASSERT_EQ(run().exit_code, 0);
  const auto before = scores_of();
  write(std::string(task).replace(task.find(all), all.size(), "[greedy]"));
  EXPECT_NE(run().err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos);
  EXPECT_EQ(scores_of(), "");
  write(std::string(task).replace(task.find(all), all.size(), "[acc_norm, log_likelihood]"));
  EXPECT_NE(run().err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos);
  EXPECT_EQ(scores_of(), before);
  EXPECT_NE(before.find("acc_norm/short"), std::string::npos) << before;
  write(std::string(task).replace(task.find("N/A N/A"), 7, "N/A"));
  EXPECT_NE(run().err.find("4 samples run now (0 failed), 0 already stored"), std::string::npos);
}

// One task's bad data is named; the others run.
TEST_F(ChoicesRun, ATaskWithBadDataIsLeftOutAndNamed) {
  folder_.write("tasks/s/u.yaml", kTask);
  folder_.write("tasks/s/u.yaml", std::string(kTask).replace(std::string(kTask).find("d.jsonl"), 7, "u.jsonl"));
  folder_.write("tasks/s/u.jsonl", "{\"q\": \"x y\", \"n\": 1, \"a\": \"0\"}\n{\"q\": \"x y\", \"n\": 1}\n");
  folder_.write("x.yaml", "name: x\nmodel: models/demo\ntasks: [" + (folder_ / "tasks/s/u.yaml").string() + ", " +
                              (folder_ / "tasks/s/t.yaml").string() + "]\ncompressors: [full]\n");
  const auto done = run();
  EXPECT_EQ(done.exit_code, 4);
  EXPECT_NE(
      done.err.find("left out: s/u: " + (folder_ / "tasks/s/u.jsonl").string() + ":2:1: error: unknown field 'a'"),
      std::string::npos)
      << done.err;
  EXPECT_EQ(stored("full").size(), 3u);
}

}  // namespace
}  // namespace kvc
