#include "store/rescore.h"

#include "store_fixture.h"

namespace kvc {
namespace {

class Rescore : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    store_.emplace(ResultStore::open(path_));
    store_->put_cell(make_cell("c", "kivi", "t/x"));
    store_->put_sample(make_sample("c", 0, 1));
    store_->put_sample(make_sample("c", 1, 0));
    store_->put_sample(failed_sample("c", 2));
  }

  // "sample extractor position answer value" of all scores
  std::vector<std::string> scores() {
    std::vector<std::string> rows;
    auto select = store_->database().prepare(
        "SELECT sample || ' ' || extractor || ' ' || position || ' ' || ifnull(answer, '-') || ' ' || value FROM score"
        " ORDER BY sample, position");
    while (select.step()) rows.push_back(select.text(0));
    return rows;
  }

  RescoreCounts rescore(const std::vector<std::string>& order,
                        const std::function<std::vector<ScoreRow>(const StoredGeneration&)>& rows) {
    return rescore_cell(store_->database(), "c", order, rows,
                        [&](int64_t sample, const Error& error) { reports_.push_back(concat(sample, error.what())); });
  }

  std::optional<ResultStore> store_;
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
  EXPECT_EQ(store_->database().text("SELECT extractor FROM v_score WHERE position = 0"), "new");
}

TEST_F(Rescore, TheSameRulesChangeNothing) {
  const auto before = stable_dump(store_->database());
  const auto counts = rescore({"first", "second"}, [](const StoredGeneration& stored) {
    return std::vector<ScoreRow>{{"first", "4", stored.sample == 0 ? 1.0 : 0.0}, {"second", std::nullopt, 0}};
  });
  EXPECT_EQ(counts.n_changed, 0);
  EXPECT_EQ(stable_dump(store_->database()), before);
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

}  // namespace
}  // namespace kvc
