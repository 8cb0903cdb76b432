#include "store/rescore.h"

#include "store_fixture.h"
#include "support/stable_dump.h"

namespace kvc {
namespace {

class Rescore : public OpenStoreTest {
 protected:
  void SetUp() override {
    store_.put_cell(make_cell("c", "kivi", "t/x"));
    store_.put_sample(make_sample("c", 0, 1));
    store_.put_sample(make_sample("c", 1, 0));
    store_.put_sample(failed_sample("c", 2));
  }

  // "sample extractor position answer value" of all scores
  std::vector<std::string> scores() {
    std::vector<std::string> rows;
    auto select = store_.database().prepare(
        "SELECT sample || ' ' || extractor || ' ' || position || ' ' || ifnull(answer, '-') || ' ' || value FROM score"
        " ORDER BY sample, position");
    while (select.step()) rows.push_back(select.text(0));
    return rows;
  }

  RescoreCounts rescore(const std::vector<std::string>& order,
                        const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& rows) {
    return rescore_cell(store_.database(), "c", order, rows,
                        [&](int64_t sample, const Error& error) { reports_.push_back(concat(sample, error.what())); });
  }

  std::vector<std::string> reports_;
};

TEST_F(Rescore, NewExtractorsStandBesideTheOldOnesInTheTasksOrder) {
  const auto counts = rescore({"new", "first"}, [](const StoredGeneration& stored) {
    EXPECT_EQ(stored.generation, " 4");
    EXPECT_EQ(stored.gold, "4");
    return std::vector<ScoreRow>{{"new", "four", 0.5}, {"first", "4", 1}};
  });
  EXPECT_EQ(counts.n_samples, 2);  // the failed sample has no generation
  EXPECT_EQ(counts.n_changed, 3);  // new twice, first of sample 1
  EXPECT_EQ(scores(), (std::vector<std::string>{"0 new 0 four 0.5", "0 first 1 4 1.0", "0 second 2 - 0.0",
                                                "1 new 0 four 0.5", "1 first 1 4 1.0", "1 second 2 - 0.0"}));
  EXPECT_EQ(store_.database().text("SELECT extractor FROM v_score WHERE position = 0"), "new");
}

TEST_F(Rescore, TheSameRulesChangeNothing) {
  const auto before = stable_dump(store_.database());
  const auto counts = rescore({"first", "second"}, [](const StoredGeneration& stored) {
    return std::vector<ScoreRow>{{"first", "4", stored.sample == 0 ? 1.0 : 0.0}, {"second", std::nullopt, 0}};
  });
  EXPECT_EQ(counts.n_changed, 0);
  EXPECT_EQ(stable_dump(store_.database()), before);
}

TEST_F(Rescore, ASampleThatCannotBeScoredKeepsWhatItHad) {
  const auto counts = rescore({"first"}, [](const StoredGeneration& stored) {
    if (stored.sample == 0) throw Error("too deep");
    return std::vector<ScoreRow>{{"first", "5", 0.25}};
  });
  EXPECT_EQ(counts.n_failed, 1);
  EXPECT_EQ(reports_, std::vector<std::string>{"0too deep"});
  EXPECT_EQ(scores(),
            (std::vector<std::string>{"0 first 0 4 1.0", "0 second 1 - 0.0", "1 first 0 5 0.25", "1 second 1 - 0.0"}));
}

TEST_F(Rescore, WhatStopsItHalfwayChangesNothing) {
  const auto before = scores();
  EXPECT_THROW(rescore({"first"},
                       [](const StoredGeneration& stored) {
                         if (stored.sample == 1) throw EnvironmentError("no dictionary");
                         return std::vector<ScoreRow>{{"first", "9", 0.125}};
                       }),
               EnvironmentError);
  EXPECT_EQ(scores(), before);
}

// Scoring anew: the cell as a run by that scoring would have stored it.
class ScoreAnew : public Rescore {
 protected:
  RescoreCounts anew(const std::string& scoring,
                     const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& f) {
    return score_anew(store_.database(), "c", scoring, f,
                      [&](int64_t sample, const Error& error) { reports_.push_back(concat(sample, error.what())); });
  }
  static std::vector<ScoreRow> ninth(const StoredGeneration& stored) { return {{"ninth", stored.generation, 0.5}}; }
  std::string dump() { return stable_dump(store_.database()); }
};

TEST_F(ScoreAnew, GivesWhatARunByThatScoringHadStored) {
  const auto counts = anew("by ninth", ninth);
  EXPECT_EQ(counts.n_samples, 2);
  EXPECT_EQ(counts.n_failed, 0);
  EXPECT_TRUE(counts.is_other);
  auto fresh = ResultStore::open(folder_ / "fresh.sqlite");
  auto cell = make_cell("c", "kivi", "t/x");
  cell.scoring_json = "by ninth";
  fresh.put_cell(cell);
  for (const int64_t sample : {0, 1}) {
    auto record = make_sample("c", sample);
    record.scores = {{"ninth", " 4", 0.5}};
    record.scoring_json = "by ninth";
    fresh.put_sample(record);
  }
  fresh.put_sample(failed_sample("c", 2));  // has no generation, and stays
  EXPECT_EQ(dump(), stable_dump(fresh.database()));
}

TEST_F(ScoreAnew, TheSameScoringTouchesNothing) {
  const auto before = dump();
  const auto counts = anew("{}", [](const auto&) -> std::vector<ScoreRow> { throw Error("asked"); });
  EXPECT_EQ(counts.n_samples + counts.n_failed, 0);
  EXPECT_EQ(dump(), before);
  EXPECT_TRUE(reports_.empty());
}

TEST_F(ScoreAnew, ASampleThatCannotBeScoredFailsAndIsScoredNextTime) {
  const auto counts = anew("new", [](const StoredGeneration& stored) {
    if (stored.sample == 1) throw EnvironmentError("no dictionary\nat all");
    return ninth(stored);
  });
  EXPECT_EQ(counts.n_samples, 1);
  EXPECT_EQ(counts.n_failed, 1);
  EXPECT_EQ(reports_, std::vector<std::string>{"1no dictionary\nat all"});
  EXPECT_EQ(
      store_.database().text("SELECT status || ' ' || error || ' ' || token_ids_json FROM sample WHERE sample = 1"),
      "failed no dictionary [7,8]");
  EXPECT_EQ(scores(), std::vector<std::string>{"0 ninth 0  4 0.5"});
  const auto next = anew("new", ninth);
  EXPECT_EQ(next.n_samples, 1);  // sample 0 is not scored again
  EXPECT_FALSE(next.is_other);
  EXPECT_EQ(scores(), (std::vector<std::string>{"0 ninth 0  4 0.5", "1 ninth 0  4 0.5"}));
  EXPECT_EQ(store_.database().text("SELECT status || error FROM sample WHERE sample = 1"), "ok");
}

// As a kill does: the transaction is left without a commit.
TEST_F(ScoreAnew, WhatStopsItHalfwayChangesNothing) {
  const auto before = dump();
  const auto stops = [](const StoredGeneration& stored) {
    if (stored.sample == 1) throw std::runtime_error("killed");
    return ninth(stored);
  };
  EXPECT_THROW(anew("new", stops), std::runtime_error);
  EXPECT_EQ(dump(), before);
}

}  // namespace
}  // namespace kvc
