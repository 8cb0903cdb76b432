// `question: after_compression` from the experiment to the rows: what is compressed has not seen the question.
#include <gtest/gtest.h>

#include <algorithm>

#include "experiment/grid.h"
#include "store/result_store.h"
#include "support/message_of.h"
#include "support/program.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

using test::run_program;
using test::TempFolder;

const char kHead[] = "name: x\nmodel: models/demo\nsizes: []\n";
const char kAfter[] = "question: after_compression\n";
const char kSame[] =
    "SELECT count(*) FROM sample AS a JOIN cell AS ca ON ca.key = a.cell_key JOIN cell AS cb ON"
    " cb.plugin = ca.plugin JOIN sample AS b ON b.cell_key = cb.key AND b.sample = a.sample"
    " WHERE ca.plugin = 'full' AND ca.generation_json ->> '$.question' IS NULL"
    " AND cb.generation_json ->> '$.question' = 'after_compression'";

class QuestionRun : public testing::Test {
 protected:
  test::Finished run(const std::string& experiment) {
    const auto file = folder_.write("x.yaml", kHead + experiment);
    return run_program(folder_, {"run", file.string(), "--db", database_.string()});
  }
  Database& db() {
    store_.emplace(ResultStore::open_readonly(database_));
    return store_->database();
  }
  std::vector<Grid::Cell> cells(const std::string& experiment) {
    return expand_grid(load_experiment(folder_.write("k.yaml", kHead + experiment), {}), find_paths()).cells;
  }
  TempFolder folder_;
  std::filesystem::path database_ = folder_ / "x.sqlite";
  std::optional<ResultStore> store_;
};

TEST_F(QuestionRun, FullAnswersAsWithTheQuestionInThePromptAndAWindowLosesTheCode) {
  const std::string what = "tasks: [demo/lookup_asked]\nlimit: 6\ncompressors: [full, {window: {recent: 32}}]\n";
  ASSERT_EQ(run(what).exit_code, 0) << read_file(folder_ / "err");
  ASSERT_EQ(run(what + kAfter).exit_code, 0) << read_file(folder_ / "err");
  EXPECT_EQ(db().integer("SELECT count(*) FROM sample WHERE status = 'ok'"), 4 * 6);
  for (const char* const column : {"token_ids_json", "generation", "stop_reason", "n_prompt_tokens", "n_new_tokens",
                                   "kv_bytes", "kv_bytes_fp16", "paper_bytes"}) {
    EXPECT_EQ(db().integer(std::string(kSame) + " AND a." + column + " = b." + column), 6) << column;
  }
  EXPECT_EQ(db().integer("SELECT count(DISTINCT settings_json) FROM v_cell"), 2);  // tables do not pool them
}

// Tokens that are evicted are of the context: the question's and the answer's are all there.
TEST_F(QuestionRun, TheFormulaCountsTheQuestionAsNew) {
  const std::string what =
      "tasks: [demo/lookup_asked]\nlimit: 4\ncompressors: [{snapkv: {capacity: 64, window: 16}}]\n";
  ASSERT_EQ(run(what + kAfter).exit_code, 0) << read_file(folder_ / "err");
  const auto tokenizer = Tokenizer::load(std::filesystem::path(KVC_SOURCE_DIR) / "models" / "demo");
  auto select = db().prepare(
      "SELECT s.n_new_tokens, s.kv_bytes, s.paper_bytes, p.body, s.n_prompt_tokens FROM sample"
      " AS s JOIN text AS p ON p.sha256 = s.prompt_sha256");
  int n = 0;
  for (; select.step(); ++n) {
    const auto prompt = select.text(3);
    const auto context = prompt.substr(0, prompt.rfind(" What is"));  // " What" is a token
    const auto n_context = static_cast<int64_t>(tokenizer.encode(context, true).size());
    const int64_t n_held = 64 + select.integer(4) - n_context + select.integer(0) - 1;
    const int64_t n_bytes = n_held * 2 * 4 * 2 * 64 * 2;  // K and V, layers, KV heads, dimensions, bytes
    EXPECT_EQ(select.real(2), static_cast<double>(n_bytes));
    EXPECT_EQ(select.integer(1), n_bytes + 64 * 4 * 2 * 4);  // and the kept positions
  }
  EXPECT_EQ(n, 4);
}

TEST_F(QuestionRun, WhatIsEvictedDoesNotDependOnTheQuestion) {
  auto task = read_file(std::filesystem::path(KVC_SOURCE_DIR) / "tasks/demo/lookup.yaml");
  const auto at = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(task.find(from), std::string::npos) << from;
    task.replace(task.find(from), from.size(), to);
  };
  at("data/lookup.jsonl", "d.jsonl");
  at("fields: {question: question}", "fields: {codes: codes, asked: asked}");
  at("Q: {question}\\nA:\"", "Q: {codes} {asked}\\nA:\"\n  question: '{asked}'");
  folder_.write("tasks/s/t.yaml", task);
  folder_.write("prompts/demo/lookup.txt",
                read_file(std::filesystem::path(KVC_SOURCE_DIR) / "prompts/demo/lookup.txt"));
  const std::string codes = "The code words are Noa eggs rose, Sam pots maple, Jon mugs ruby, Kim nuts teal.";
  std::string lines;
  for (const char* const asked : {"What is the code word of Kim nuts?", "What is the code word of Sam pots?"}) {
    lines += nlohmann::json{{"codes", codes}, {"asked", asked}, {"gold", "teal"}}.dump() + "\n";
  }
  folder_.write("tasks/s/d.jsonl", lines);
  const std::string what =
      "tasks: [" + (folder_ / "tasks/s/t.yaml").string() +
      "]\ncompressors: [{snapkv: {capacity: 48, window: 8}}, {h2o: {heavy_ratio: 0.1, recent_ratio: 0.1}}]\n";
  ASSERT_EQ(run(what).exit_code, 0) << read_file(folder_ / "err");
  ASSERT_EQ(run(what + kAfter).exit_code, 0) << read_file(folder_ / "err");
  // What is left of the prompt's K and V depends on the positions that are kept, to the last bit.
  const auto n_errors = [&](const std::string& where) {
    return db().integer(
        "SELECT sum(n) FROM (SELECT count(DISTINCT printf('%.17g %.17g', k_error, v_error)) AS n FROM"
        " sample JOIN cell ON key = cell_key WHERE status = 'ok' AND generation_json ->> '$.question' " +
        where + " GROUP BY plugin)");
  };
  EXPECT_EQ(n_errors("IS NULL"), 2 * 2);
  EXPECT_EQ(n_errors("= 'after_compression'"), 2 * 1);
}

// 18 exemplars, the same before every question: their exact K and V are computed once.
TEST_F(QuestionRun, QuestionsOfOneContextShareItsPrefill) {
  ASSERT_EQ(run(std::string("tasks: [demo/lookup_long]\nlimit: 3\ncompressors: [full]\n") + kAfter).exit_code, 0)
      << read_file(folder_ / "err");
  EXPECT_EQ(db().integer("SELECT count(*) FROM sample WHERE n_reused_tokens > 1000"), 2);
}

TEST_F(QuestionRun, TheModeIsPartOfACellsKeyWhereItIsOn) {
  const std::string what = "tasks: [demo/lookup_asked]\nlimit: 1\ncompressors: [full]\n";
  const auto without = cells(what).at(0).record, off = cells(what + "question: in_prompt\n").at(0).record,
             on = cells(what + kAfter).at(0).record;
  EXPECT_EQ(off.key, without.key);
  EXPECT_NE(on.key, without.key);
  EXPECT_EQ(without.generation_json.find("question"), std::string::npos) << without.generation_json;
  EXPECT_EQ(nlohmann::json::parse(without.task_json).count("question"), 0u) << without.task_json;
  EXPECT_EQ(nlohmann::json::parse(on.generation_json).at("question"), "after_compression");
  EXPECT_EQ(nlohmann::json::parse(on.task_json).at("question"), "{asked}");
}

TEST_F(QuestionRun, WhatCannotBeAskedAfterwardsIsRefusedInOneLine) {
  const auto message = [&](const std::string& experiment) {
    const auto done = run(experiment);
    EXPECT_EQ(done.exit_code, 2);
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    return done.err;
  };
  const auto no_question = message(std::string("tasks: [demo/swaps]\ncompressors: [full]\n") + kAfter);
  EXPECT_NE(no_question.find("tasks/demo/swaps.yaml: task demo/swaps does not say where its question begins"),
            std::string::npos)
      << no_question;
  const auto other = message("tasks: [demo/lookup_asked]\ncompressors: [full]\nquestion: afterwards\n");
  EXPECT_NE(other.find("x.yaml:6:11: error: question is 'afterwards', allowed: in_prompt, after_compression"),
            std::string::npos)
      << other;
  const auto probe = message(std::string("kind: probe\ntasks: [demo/lookup_asked]\ncompressors: [full]\n") + kAfter);
  EXPECT_NE(probe.find("question is after_compression, and kind is probe: expected kind eval"), std::string::npos)
      << probe;
}

}  // namespace
}  // namespace kvc
