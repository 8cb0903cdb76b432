// Tasks that read a text, from the task file to the table.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "store/database.h"
#include "support/places.h"
#include "support/program.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

const char* const kTask = R"(version: 1
summary: a text
kind: likelihood
data: {file: t.txt, root: task, format: text}
fields: {text: text}
prompt: {template: "{text}"}
likelihood: {tokens: 96, prompt_tokens: 32, block: 24, reference: full}
)";

class LikelihoodRun : public testing::Test {
 protected:
  LikelihoodRun() {
    folder_.write("tasks/s/t.yaml", kTask);
    text_ = read_file(test::kCheckout / "tasks/demo/data/swaps.jsonl").substr(0, 6000);
    folder_.write("tasks/s/t.txt", text_);
    write_experiment("  - full\n  - rtn: {bits: 2}\n    label: two bits\n");
  }
  void write_experiment(const std::string& compressors, const std::string& more = "limit: 2\n") {
    folder_.write("x.yaml", "name: x\nmodel: models/demo\ntasks: [" + (folder_ / "tasks/s/t.yaml").string() + "]\n" +
                                more + "plugin_path: [" + KVC_BINARY_DIR + "/tests/plugins]\ncompressors:\n" +
                                compressors);
  }
  void write_task(const std::string& from, const std::string& to) {
    std::string task = kTask;
    folder_.write("tasks/s/t.yaml", task.replace(task.find(from), from.size(), to));
  }
  test::Finished run(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"run", (folder_ / "x.yaml").string(), "--db", database_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(folder_, arguments);
  }
  Database db() { return Database::open(database_, Database::Mode::kReadOnly, 1000); }
  nlohmann::json table(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"table", "likelihood", "--db", database_.string(), "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto done = run_program(folder_, arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return nlohmann::json::parse(done.out);
  }

  TempFolder folder_;
  std::filesystem::path database_ = folder_ / "x.sqlite";
  std::string text_;
};

TEST_F(LikelihoodRun, FullIsExactlyNothingApartAndNoiseIsNot) {
  const auto done = run();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  auto database = db();
  const std::string of = " FROM likelihood JOIN cell ON key = cell_key WHERE plugin = ";
  EXPECT_EQ(database.integer("SELECT count(*)" + of + "'full'"), 2 * 3);  // 64 scored tokens: 24, 24, 16
  EXPECT_EQ(database.integer("SELECT sum(kl <> 0.0) + sum(n_top1_same <> n_tokens)" + of + "'full'"), 0);
  EXPECT_EQ(database.integer("SELECT sum(kl > 0.0)" + of + "'rtn'"), 2 * 3);
  EXPECT_LT(database.integer("SELECT sum(n_top1_same)" + of + "'rtn'"), 128);
  EXPECT_EQ(database.text("SELECT group_concat(position || ':' || n_tokens)" + of + "'rtn' AND sample = 1"),
            "32:24,56:24,80:16");
  EXPECT_EQ(database.text("SELECT group_concat(extractor || value) FROM score JOIN cell ON key = cell_key"
                          " WHERE plugin = 'full' AND sample = 0 AND position < 2"),
            "mean_kl0.0,top11.0");
}

// A window of 256 tokens holds all that the first of them saw; what it drops then, the tokens behind it miss.
TEST_F(LikelihoodRun, ADecodersErrorBeginsWhereItsCacheDropsTokens) {
  write_task("{tokens: 96, prompt_tokens: 32, block: 24,", "{tokens: 768, prompt_tokens: 64, block: 64,");
  write_experiment("  - full\n  - window: {sinks: 0, recent: 256}\n");
  ASSERT_EQ(run().exit_code, 0);
  const auto rows = table({"--stretch", "256"})["rows"];
  ASSERT_EQ(rows.size(), 2u * 4);
  const std::string names[] = {"64-255", "256-511", "512-767", "all"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rows[i]["position"], names[i]);
    EXPECT_EQ(rows[i]["nll error [nats]"], "0");  // full's own
    EXPECT_EQ(rows[4 + i]["position"], names[i]);
    EXPECT_EQ(std::stod(rows[4 + i]["KL [nats]"].get<std::string>()) > 1e-6, i > 0) << rows[4 + i];
    EXPECT_EQ(std::abs(std::stod(rows[4 + i]["nll error [nats]"].get<std::string>())) > 1e-4, i > 0) << rows[4 + i];
  }
  auto database = db();
  auto select = database.prepare(
      "SELECT sum(CASE plugin WHEN 'window' THEN nll ELSE -nll END) / sum(plugin = 'window') / 64 FROM likelihood"
      " JOIN cell ON key = cell_key WHERE position >= 512");
  ASSERT_TRUE(select.step());
  const auto error = std::stod(rows[6]["nll error [nats]"].get<std::string>());  // three digits of it
  EXPECT_NEAR(error, select.real(0), 0.006 * std::abs(select.real(0)));
  const auto other = run_program(folder_, {"table", "--db", database_.string(), "--stretch", "256"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("--stretch 256 applies to the table likelihood, not to 'summary'"), std::string::npos);
}

TEST_F(LikelihoodRun, BlocksAddUpToTheSamplesSums) {
  ASSERT_EQ(run().exit_code, 0);
  auto database = db();
  auto select = database.prepare(
      "SELECT s.generation, sum(l.n_tokens), sum(l.nll), sum(l.kl), sum(l.n_top1_same), s.n_prompt_tokens, "
      "s.n_new_tokens FROM sample AS s JOIN likelihood AS l USING (cell_key, sample) GROUP BY s.cell_key, s.sample");
  int n = 0;
  while (select.step()) {
    const auto sums = nlohmann::json::parse(select.text(0));
    EXPECT_EQ(sums["n_tokens"], 64);
    EXPECT_EQ(select.integer(1), 64);
    EXPECT_NEAR(sums["nll"], select.real(2), 1e-9);
    EXPECT_NEAR(sums["kl"], select.real(3), 1e-9);
    EXPECT_EQ(sums["n_top1_same"], select.integer(4));
    EXPECT_EQ(select.integer(5), 32);
    EXPECT_EQ(select.integer(6), 64);
    ++n;
  }
  EXPECT_EQ(n, 4);
}

// Each begins with what the tokenizer puts before a text, here one token.
TEST_F(LikelihoodRun, WindowsFollowEachOtherInOneEncodingOfTheText) {
  ASSERT_EQ(run({"--limit", "1000"}).exit_code, 0);
  const auto tokenizer = Tokenizer::load(test::kCheckout / "models" / "demo");
  const auto ids = tokenizer.encode(text_, false);
  auto database = db();
  EXPECT_EQ(database.integer("SELECT max(n_samples) FROM cell"), static_cast<int64_t>(ids.size() / 95));
  for (const int64_t sample : {0, 1, 3}) {
    const auto first = ids.begin() + 95 * sample;
    EXPECT_EQ(database.text("SELECT body FROM text JOIN sample ON prompt_sha256 = sha256 WHERE sample = " +
                            std::to_string(sample) + " LIMIT 1"),
              tokenizer.decode({first, first + 95}, true));
  }
}

TEST_F(LikelihoodRun, RunAgainRepeatsNothingAndALimitChangesNoCell) {
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_NE(run().err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos);
  EXPECT_NE(run({"--limit", "3"}).err.find("2 samples run now (0 failed), 4 already stored"), std::string::npos);
}

TEST_F(LikelihoodRun, ItRepeatsAndIsRescored) {
  ASSERT_EQ(run().exit_code, 0);
  for (const char* plugin : {"full", "rtn"}) {
    const auto key = db().text(std::string("SELECT key FROM cell WHERE plugin = '") + plugin + "'");
    const auto verified = run_program(folder_, {"verify-run", database_.string(), key});
    EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  }
}

TEST_F(LikelihoodRun, AnotherBinaryOfTheReferenceIsANote) {
  ASSERT_EQ(run().exit_code, 0);
  ResultStore::open(database_).database().execute(
      "UPDATE cell SET task_json = json_set(task_json, '$.likelihood.reference.plugin_sha256', '0123')");
  const auto key = db().text("SELECT key FROM cell WHERE plugin = 'rtn'");
  const auto verified = run_program(folder_, {"verify-run", database_.string(), key});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_NE(verified.out.find("note: reference's binary: stored 0123, now "), std::string::npos) << verified.out;
}

TEST_F(LikelihoodRun, TheTableHasStretchesLabelsAndSizes) {
  write_task("tokens: 96, prompt_tokens: 32, block: 24", "tokens: 640, prompt_tokens: 200, block: 50");
  write_experiment("  - full\n  - rtn: {bits: 2}\n    label: two bits\n", "limit: 1\n");
  ASSERT_EQ(run().exit_code, 0);
  const auto found = table();
  std::vector<std::string> positions;
  for (const auto& row : found["rows"]) {
    if (row["compressor"] == "two bits") positions.push_back(row["position"]);
  }
  EXPECT_EQ(positions, (std::vector<std::string>{"200-299", "300-549", "550-639", "all"}));
  const auto& full = found["rows"][3];
  EXPECT_EQ(full["compressor"], "full");
  EXPECT_EQ(full["tokens"], 440);
  EXPECT_EQ(full["KL [nats]"], "0");
  EXPECT_EQ(full["top-1 [%]"], "100.00");
  EXPECT_EQ(full["KV size [%]"], 100);
  const auto& lossy = found["rows"][7];
  EXPECT_EQ(lossy["position"], "all");
  EXPECT_LT(lossy["KV size [%]"], 40);
  const double nll = db().integer(
                         "SELECT 1000000 * sum(nll) / sum(n_tokens) FROM likelihood JOIN cell ON key = cell_key"
                         " WHERE plugin = 'rtn'") /
                     1e6;
  EXPECT_NEAR(std::stod(lossy["perplexity"].get<std::string>()) / std::exp(nll), 1, 2e-6);
  EXPECT_NE(found["notes"].dump().find("there is none for fewer than 5 windows"), std::string::npos);
  EXPECT_NE(found["notes"].dump().find("from the reference's, nats/token"), std::string::npos);
}

// KL of rtn minus KL of full, which is 0: the difference is rtn's own mean.
TEST_F(LikelihoodRun, CompareHoldsKlOnTheSameTokensSideBySide) {
  write_experiment("  - full\n  - rtn: {bits: 2}\n  - rtn: {bits: 4}\n", "limit: 6\n");
  ASSERT_EQ(run().exit_code, 0);
  const auto done =
      run_program(folder_, {"compare", database_.string(), "--baseline", "full", "--kl", "--format", "json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto rows = nlohmann::json::parse(done.out)["rows"];
  ASSERT_EQ(rows.size(), 2u) << rows;
  auto database = db();
  for (const auto& row : rows) {
    auto select = database.prepare(
        "SELECT sum(kl) / sum(n_tokens) FROM likelihood JOIN cell ON key = cell_key WHERE plugin = 'rtn' AND bits = ?");
    select.bind(1, row["B"].get<std::string>().find("bits 2") != std::string::npos ? 2.0 : 4.0);
    ASSERT_TRUE(select.step());
    EXPECT_EQ(row["windows"], 6);
    EXPECT_EQ(row["tokens"], 6 * 64);
    EXPECT_EQ(row["KL A [nats]"], 0);
    EXPECT_NEAR(row["B - A [nats]"], select.real(0), 0.006 * select.real(0));
    EXPECT_LT(row["low [nats]"], row["B - A [nats]"]);
    EXPECT_GT(row["high [nats]"], row["B - A [nats]"]);
    EXPECT_NEAR(row["p (Holm)"], 2 * 2.0 / 64, 0.001);  // all six windows rose, in both rows: 2 of 2^6 flips, twice
    EXPECT_NEAR(row["p"], 2.0 / 64, 0.001);
  }
  const auto shown = run_program(folder_, {"compare", database_.string(), "--baseline", "full"});
  EXPECT_NE(shown.out.find("KL divergence on the same tokens"), std::string::npos) << shown.out;
  const auto none = run_program(folder_, {"compare", database_.string(), "--baseline", "full", "--kl", "--task", "x"});
  EXPECT_EQ(none.exit_code, 2) << none.out;

  // What six windows can show, by the deviation of their means.
  const auto planned = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"power", database_.string(), "full", "rtn bits=2",
                                          "--kl",  "--format",         "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto power = run_program(folder_, arguments);
    EXPECT_EQ(power.exit_code, 0) << power.err;
    return nlohmann::json::parse(power.out)["rows"][0];
  };
  const auto number = [](const nlohmann::json& x) {
    return x.is_string() ? std::stod(x.get<std::string>()) : x.get<double>();
  };
  auto deviation = database.prepare(
      "WITH w AS (SELECT sum(kl) / sum(n_tokens) AS m FROM likelihood JOIN cell ON key = cell_key WHERE plugin = 'rtn' "
      "AND bits"
      " = 2 GROUP BY sample) SELECT sum((m - (SELECT avg(m) FROM w)) * (m - (SELECT avg(m) FROM w))) / 5 FROM w");
  ASSERT_TRUE(deviation.step());
  const double sd = std::sqrt(deviation.real(0));
  const auto plan = planned({});
  EXPECT_EQ(plan["windows"], 6);
  EXPECT_NEAR(number(plan["sd [nats]"]), sd, 0.02 * sd);
  const double by_normal = 2.8016 * sd / std::sqrt(6.0), detectable = number(plan["detectable [nats]"]);
  EXPECT_GT(detectable, by_normal);  // a t test of six needs more
  EXPECT_LT(detectable, 1.7 * by_normal);
  const auto needed = planned({"--difference", std::to_string(1.01 * detectable)})["windows needed"];
  EXPECT_GE(needed.get<int>(), 5);
  EXPECT_LE(needed.get<int>(), 6);
}

// The reference reads what the compressors read; whether it is among them does not matter.
TEST_F(LikelihoodRun, WhatStandsBesideChangesNothing) {
  ASSERT_EQ(run().exit_code, 0);
  const std::string sums =
      "SELECT group_concat(generation) FROM sample JOIN cell ON key = cell_key WHERE plugin = 'rtn'";
  const auto beside = db().text(sums);
  std::filesystem::remove(database_);
  write_experiment("  - rtn: {bits: 2}\n", "limit: 2\nbatch_size: 1\nfan_out: false\n");
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_EQ(db().text(sums), beside);
}

TEST_F(LikelihoodRun, AProbeOfTheTaskReadsTheTextItself) {
  write_experiment("  - rtn: {bits: 2}\n", "limit: 1\nkind: probe\nprobe: {measures: [kl, channel_mean_abs]}\n");
  const auto done = run();
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(db().integer("SELECT count(*) FROM probe WHERE measure = 'kl'"), 63);
}

TEST_F(LikelihoodRun, BytesThatAPluginHidesAreFound) {
  write_experiment("  - hides_bytes\n  - full\n");
  const auto done = run();
  EXPECT_EQ(done.exit_code, 4);
  EXPECT_NE(done.err.find("footprint() must count every buffer"), std::string::npos) << done.err;
  EXPECT_EQ(db().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 2);
  EXPECT_EQ(db().integer("SELECT count(DISTINCT cell_key) FROM likelihood"), 1);
}

TEST_F(LikelihoodRun, APluginThatDiesCostsItsOwnWindows) {
  write_experiment("  - full\n  - crashes\n", "limit: 1\n");
  const auto done = run();
  EXPECT_EQ(done.exit_code, 4);
  EXPECT_NE(done.err.find("killed by signal 6"), std::string::npos) << done.err;
  EXPECT_EQ(db().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 1);
}

TEST_F(LikelihoodRun, WhatCannotBeReadIsRefusedWithTheCounts) {
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    write_task(from, to);
    const auto done = run();
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_NE(done.err.find(message), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  };
  refused("tokens: 96", "tokens: 5000",
          "t.yaml:7:13: error: likelihood.tokens is 5000, and the model's context has 4096");
  refused("reference: full", "reference: ful", "t.yaml:7:13: error: unknown compressor 'ful' (did you mean 'full'?)");
  folder_.write("tasks/s/t.txt", "Q: Sam has the rope.");
  const auto n = Tokenizer::load(test::kCheckout / "models" / "demo").encode("Q: Sam has the rope.", true).size();
  refused(
      "text: text", "text: text",
      "likelihood.tokens is 96, and the longest of 1 texts has " + std::to_string(n) + " with the model's tokenizer");
  folder_.write("tasks/s/t.txt", text_);
  write_experiment("  - full\n", "max_prompt_tokens: 31\n");
  refused("text: text", "text: text", "likelihood.prompt_tokens is 32, and max_prompt_tokens is 31");
}

TEST_F(LikelihoodRun, AWindowIsShownAsAPrompt) {
  const auto done =
      run_program(folder_, {"prompt", (folder_ / "tasks/s/t.yaml").string(), "1", "--model", "models/demo", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto ids = Tokenizer::load(test::kCheckout / "models" / "demo").encode(text_, true);
  std::vector wanted{ids[0]};
  wanted.insert(wanted.end(), ids.begin() + 96, ids.begin() + 127);
  EXPECT_EQ(nlohmann::json::parse(done.out)["ids"], nlohmann::json(wanted));
}

// A file of a kvc that knew no likelihoods has no such table, and may not be written.
TEST_F(LikelihoodRun, AnOlderFileHasNone) {
  write_experiment("  - full\n", "limit: 1\n");
  ASSERT_EQ(run().exit_code, 0);
  Database::open(database_, Database::Mode::kReadWrite, 1000)
      .execute("DROP TABLE likelihood; PRAGMA user_version = 3; DELETE FROM sample");
  EXPECT_EQ(table()["rows"].size(), 0u);
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_EQ(table()["rows"].size(), 2u);
}

}  // namespace
}  // namespace kvc
