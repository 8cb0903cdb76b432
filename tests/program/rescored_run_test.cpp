// A task's extractors changed between two runs: the stored generations are scored anew, and no model runs.
#include <gtest/gtest.h>

#include "store/result_store.h"
#include "support/program.h"
#include "support/stable_dump.h"

namespace kvc::test {
namespace {

const std::string kLast = "  - {name: last, steps: [{after_last: 'is '}, {before_first: '.'}], compare: exact}\n";
const std::string kAny = "  - {name: any, steps: [{cut_before: '.'}, strip], compare: exact}\n";
const std::string kEndless = "  - {name: last, steps: [{regex: '(?:(?:.|\\s)+)+[@#]'}], compare: exact}\n";

class RescoredRun : public testing::Test {
 protected:
  RescoredRun() {
    folder_.write("tasks/s/d.jsonl",
                  "{\"q\": \"Sam has the rope. What does Sam have?\", \"a\": \"x rope\", \"n\": 1}\n"
                  "{\"q\": \"Kim has the ring. What does Kim have?\", \"a\": \"x ring\", \"n\": 30}\n");
    write_task(kLast);
    folder_.write("x.yaml", "name: x\nmodel: models/demo\ntasks: [" + (folder_ / "tasks/s/t.yaml").string() +
                                "]\ncompressors:\n  - full\n  - rtn: {bits: 4}\n");
  }

  void write_task(const std::string& extractors, const std::string& gold = "x (.*)", const std::string& below = "10") {
    std::string cases;
    for (const std::string name : {"last", "any"}) {
      for (int i = 0; i < 6 && extractors.find("name: " + name) != std::string::npos; ++i) {
        cases += "  - {extractor: " + name + ", text: '', gold: a, answer: null, correct: false}\n";
      }
    }
    folder_.write(
        "tasks/s/t.yaml",
        "version: 1\nsummary: t\ndata: {file: d.jsonl, root: task}\nfields: {q: q}\ngold: {from: a, pattern: '" + gold +
            "'}\nprompt: {template: \"Q: {q}\\nA:\"}\nmax_new_tokens: 12\nextractors:\n" + extractors +
            "metric: accuracy\nextract_cases:\n" + cases + "buckets: [{by: n, below: {short: " + below +
            "}, rest: long}]\n");
  }

  std::string database(const std::string& name = "x") const { return (folder_ / (name + ".sqlite")).string(); }
  Finished run(const std::string& name = "x", std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"run", (folder_ / "x.yaml").string(), "--db", database(name)});
    return run_program(folder_, more);
  }
  std::string dump(const std::string& name = "x") const {
    auto store = ResultStore::open_readonly(database(name));
    return stable_dump(store.database());
  }
  void change(const std::string& sql) { ResultStore::open(database()).database().execute(sql); }
  static size_t count(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }

  TempFolder folder_;
};

TEST_F(RescoredRun, OtherExtractorsScoreTheStoredGenerationsAsIfTheyHadBeenThereAtFirst) {
  ASSERT_EQ(run().exit_code, 0) << read_file(folder_ / "err");
  write_task(kAny + kLast);
  const auto again = run();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(count(again.err, "rescored 2 samples of cell "), 2u) << again.err;
  EXPECT_EQ(count(again.err, ": its task's extractors changed\n"), 2u) << again.err;
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << again.err;
  ASSERT_EQ(run("fresh").exit_code, 0);
  EXPECT_EQ(dump(), dump("fresh"));
  EXPECT_NE(dump().find("any/long"), std::string::npos);
  EXPECT_EQ(run().err.find("rescored"), std::string::npos);  // once
}

TEST_F(RescoredRun, StoredTextIsCutAtTheTasksStopStrings) {
  const auto write = [&](const std::string& extractors) {
    write_task(extractors);
    folder_.write("tasks/s/t.yaml", read_file(folder_ / "tasks/s/t.yaml") + "stop: [' It']\n");
  };
  write(kLast);
  ASSERT_EQ(run().exit_code, 0) << read_file(folder_ / "err");
  change("UPDATE sample SET generation = ' Sam is x. It is x rope.' WHERE sample = 0");
  write(kAny + kLast);
  ASSERT_EQ(run().exit_code, 0) << read_file(folder_ / "err");
  auto store = ResultStore::open(database());
  EXPECT_EQ(store.database().text("SELECT answer FROM score WHERE sample = 0 AND extractor = 'last'"), "x");
}

// Samples behind the limit are scored too, so that a cell's scores are of one kind.
TEST_F(RescoredRun, ALowerLimitScoresAllThatIsStored) {
  ASSERT_EQ(run().exit_code, 0);
  write_task(kAny);
  const auto again = run("x", {"--limit", "1"});
  EXPECT_EQ(count(again.err, "rescored 2 samples of cell "), 2u) << again.err;
  ASSERT_EQ(run("fresh").exit_code, 0);
  EXPECT_EQ(dump(), dump("fresh"));
}

TEST_F(RescoredRun, GoldsAndBucketsAreOfTheKey) {
  ASSERT_EQ(run().exit_code, 0);
  write_task(kLast, "x r(.*)");
  EXPECT_NE(run().err.find("4 samples run now (0 failed), 0 already stored"), std::string::npos);
  write_task(kLast, "x (.*)", "5");
  EXPECT_NE(run().err.find("4 samples run now (0 failed), 0 already stored"), std::string::npos);
}

TEST_F(RescoredRun, WhatCannotBeScoredFailsAndKeepsItsGeneration) {
  ASSERT_EQ(run().exit_code, 0);
  const auto before = dump();
  write_task(kEndless);
  for (int i = 0; i < 2; ++i) {  // the second time, too, without the model
    const auto failed = run();
    EXPECT_EQ(failed.exit_code, 4) << failed.err;
    EXPECT_EQ(count(failed.err, "match limit exceeded"), 4u) << failed.err;
    EXPECT_NE(failed.err.find("0 samples run now (4 failed), 4 already stored"), std::string::npos) << failed.err;
  }
  write_task(kLast);
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_EQ(dump(), before);
}

TEST_F(RescoredRun, AFirstRunsExtractorThatFailsCostsNoGeneration) {
  write_task(kEndless);
  EXPECT_EQ(run().exit_code, 4);
  write_task(kLast);
  const auto again = run();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << again.err;
  ASSERT_EQ(run("fresh").exit_code, 0);
  EXPECT_EQ(dump(), dump("fresh"));
}

// The other run's scoring is the cell's by then: what this run generates waits for the next run, unscored.
TEST_F(RescoredRun, ARunWhoseCellAnotherRunScoresMeanwhileLosesNoGeneration) {
  { ResultStore::open(database()); }
  change("CREATE TRIGGER other AFTER INSERT ON sample BEGIN UPDATE cell SET scoring_json = '{\"metric\":\"f1\"}'; END");
  const auto beside = run();
  EXPECT_EQ(beside.exit_code, 4) << beside.err;
  EXPECT_NE(beside.err.find("another run scores the cell with other extractors"), std::string::npos) << beside.err;
  EXPECT_NE(beside.err.find("4 samples run now (3 failed)"), std::string::npos) << beside.err;
  change("DROP TRIGGER other");
  const auto again = run();
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("0 samples run now (0 failed), 4 already stored"), std::string::npos) << again.err;
  ASSERT_EQ(run("fresh").exit_code, 0);
  EXPECT_EQ(dump(), dump("fresh"));
}

TEST_F(RescoredRun, AfterTheRescoreVerbARunHasNothingToDo) {
  ASSERT_EQ(run().exit_code, 0);
  change("UPDATE cell SET scoring_json = '{}', task = 'demo/truth'");
  ASSERT_EQ(run_program(folder_, {"rescore", database(), "--extractor", "answer_is"}).exit_code, 0);
  EXPECT_EQ(ResultStore::open(database()).database().integer("SELECT count(*) FROM cell WHERE scoring_json = '{}'"), 2);
  ASSERT_EQ(run_program(folder_, {"rescore", database()}).exit_code, 0);
  const auto text = ResultStore::open(database()).database().text("SELECT scoring_json FROM cell");
  EXPECT_NE(text.find("\"name\":\"answer_is\""), std::string::npos) << text;
}

TEST_F(RescoredRun, ACellVerifiedByOtherExtractorsSaysSo) {
  ASSERT_EQ(run().exit_code, 0);
  change("UPDATE cell SET scoring_json = '{\"metric\":\"f1\"}', task = 'demo/truth'");
  const auto key = ResultStore::open(database()).database().text("SELECT key FROM cell");
  const auto verified = run_program(folder_, {"verify-run", database(), key});
  EXPECT_NE(verified.out.find("differs: cell: scoring: stored {\"metric\":\"f1\"}, now {"), std::string::npos)
      << verified.out << verified.err;
}

}  // namespace
}  // namespace kvc::test
