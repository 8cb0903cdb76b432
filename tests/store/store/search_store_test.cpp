// Searches and candidates in the database; the table that counts layers by their bits.
#include "store/search_store.h"

#include <cmath>
#include <limits>

#include "analysis/query.h"
#include "render/table.h"
#include "store_fixture.h"

namespace kvc {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

SearchRecord make_search(const std::string& key, double budget = 0.3) {
  SearchRecord search;
  search.key = key;
  search.calibration_key = "calibration";
  search.experiment = "trial";
  search.model_label = "llama-2-7b";
  search.tasks = "longbench/hotpotqa";
  search.samples_json = "{}";
  search.plugin = "tada";
  search.option = "bits";
  search.options_json = "{}";
  search.levels = "2,4,8";
  search.budget_share = budget;
  search.n_candidates = 3;
  search.n_samples = 10000;
  search.kv_bytes_fp16 = 32 * 1600;
  return search;
}

// n4 layers of 4 bits (400 bytes), the others of 2 bits (200)
CandidateRecord make_candidate(int64_t n4, double nll) {
  CandidateRecord candidate{"", "two_steps", {}, {"", nll, {}}};
  for (int64_t layer = 0; layer < 32; ++layer) {
    candidate.values.push_back(layer < n4 ? 4 : 2);
    candidate.score.bytes_of_layer.push_back(layer < n4 ? 400 : 200);
    candidate.plan += concat(layer ? "," : "", candidate.values.back());
  }
  return candidate;
}

class SearchStoreTest : public OpenStoreTest {
 protected:
  std::string csv(const std::string& sql) { return write_csv(run_query(store_.database(), sql)); }
};

// TaDA, table 4: candidate -> accuracy, layers at 4 bits, layers at 2 bits; the best first.
TEST_F(SearchStoreTest, TheTableCountsLayersByTheirBits) {
  SearchStore searches(store_);
  searches.put_search(make_search("s"));
  searches.put_candidates("s", 0, {make_candidate(12, 1.4), make_candidate(24, 1.2), make_candidate(29, 1.1)});
  searches.put_correct("s", 0, 3731);
  searches.put_correct("s", 1, 4587);
  searches.put_correct("s", 2, 4590);
  const auto table = run_query(store_.database(), table_sql("search"));
  ASSERT_EQ(table.rows.size(), 3u);
  const auto value = [&](size_t row, const std::string& name) -> TableCell {
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == name) return table.rows[row][i];
    }
    return "no such column";
  };
  const double accuracy[] = {45.90, 45.87, 37.31};
  const int64_t at_4[] = {29, 24, 12};
  for (size_t row = 0; row < 3; ++row) {
    EXPECT_NEAR(std::get<double>(value(row, "accuracy_percent")), accuracy[row], 1e-9);
    EXPECT_EQ(value(row, "layers_at_4"), TableCell(at_4[row]));
    EXPECT_EQ(value(row, "layers_at_2"), TableCell(32 - at_4[row]));
    EXPECT_EQ(value(row, "layers_at_8"), TableCell(int64_t{0}));
    EXPECT_EQ(value(row, "layers"), TableCell(concat(at_4[row], " x 4, ", 32 - at_4[row], " x 2")));
    EXPECT_EQ(value(row, "rank"), TableCell(static_cast<int64_t>(row) + 1));
  }
  EXPECT_NEAR(std::get<double>(value(0, "kv_percent")), 100.0 * (29 * 400 + 3 * 200) / 51200, 1e-9);
  EXPECT_EQ(searches.best("s"), 2);
}

TEST_F(SearchStoreTest, RanksByAccuracyThenLikelihoodWithinTheBudget) {
  SearchStore searches(store_);
  searches.put_search(make_search("s", 0.21));  // 10752 bytes
  auto failed = make_candidate(1, kNan);
  failed.score = {"the worker fell over", 0, {}};
  searches.put_candidates("s", 0,
                          {make_candidate(32, 0.1), make_candidate(20, 0.5), make_candidate(21, 0.4),
                           make_candidate(10, 0.6), make_candidate(11, kNan), failed});
  EXPECT_EQ(csv("SELECT candidate, fits, nll_rank, rank FROM v_search_candidate ORDER BY candidate"),
            "candidate,fits,nll_rank,rank\r\n0,0,,\r\n1,1,2,2\r\n2,1,1,1\r\n3,1,3,3\r\n4,0,,\r\n5,0,,\r\n");
  searches.put_correct("s", 3, 7);
  searches.put_correct("s", 2, 6);
  EXPECT_EQ(csv("SELECT candidate FROM v_search_candidate WHERE fits ORDER BY rank"), "candidate\r\n3\r\n2\r\n1\r\n");
  EXPECT_EQ(searches.best("s"), 3);
  searches.put_search(make_search("none", 0.01));
  searches.put_candidates("none", 0, {make_candidate(20, 0.5)});
  EXPECT_EQ(searches.best("none"), std::nullopt);
}

TEST_F(SearchStoreTest, FindsWhatAnotherSearchOfTheCalibrationScored) {
  SearchStore searches(store_);
  searches.put_search(make_search("a", 0.3));
  searches.put_search(make_search("b", 0.2));
  const auto candidate = make_candidate(7, 0.1 + 0.2);
  searches.put_candidates("a", 0, {candidate});
  const auto found = searches.find_score("calibration", candidate.plan);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->nll, 0.1 + 0.2);  // to the last bit
  EXPECT_EQ(found->bytes_of_layer, candidate.score.bytes_of_layer);
  EXPECT_FALSE(searches.find_score("another", candidate.plan));
  EXPECT_FALSE(searches.find_correct("calibration", candidate.plan));
  searches.put_correct("a", 0, 5);
  EXPECT_EQ(searches.find_correct("calibration", candidate.plan), 5);
}

TEST_F(SearchStoreTest, TheSameAgainChangesNothingAndAnotherPlanInItsPlaceIsRefused) {
  SearchStore searches(store_);
  searches.put_search(make_search("s"));
  searches.put_candidates("s", 0, {make_candidate(7, 1), make_candidate(8, 2)});
  searches.put_correct("s", 0, 5);
  const auto before = csv("SELECT * FROM search_candidate");
  searches.put_search(make_search("s"));
  searches.put_candidates("s", 0, {make_candidate(7, 1), make_candidate(8, 2)});
  EXPECT_EQ(csv("SELECT * FROM search_candidate"), before);
  const auto message = message_of([&] { searches.put_candidates("s", 1, {make_candidate(9, 1)}); });
  EXPECT_NE(message.find("candidate 1 of search s is 4,4,4,4,4,4,4,4,2"), std::string::npos) << message;
}

TEST_F(SearchStoreTest, AFileFromBeforeThereWereSearchesGetsTheTables) {
  auto& db = store_.database();
  store_.put_cell(make_cell("k", "full", "t"));
  db.execute("DROP VIEW v_search_candidate; DROP TABLE search_layer; DROP TABLE search_candidate; DROP TABLE search");
  auto again = ResultStore::open(path_);
  SearchStore searches(again);
  searches.put_search(make_search("s"));
  EXPECT_EQ(csv("SELECT count(*) AS n FROM v_search_candidate"), "n\r\n0\r\n");
  EXPECT_EQ(csv("SELECT key FROM cell"), "key\r\nk\r\n");
}

}  // namespace
}  // namespace kvc
