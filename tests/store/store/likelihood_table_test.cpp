// Likelihoods of text by position: sums of blocks put together, and what is said of them.
#include "analysis/likelihood_table.h"

#include <cmath>
#include <optional>

#include "store_fixture.h"

namespace kvc {
namespace {

class LikelihoodTableTest : public OpenStoreTest {
 protected:
  void put(const std::string& key, const std::string& plugin, std::vector<LikelihoodRow> rows, int64_t sample = 0,
           const std::string& label = "") {
    auto cell = make_cell(key, plugin, "text");
    cell.task_json = R"({"likelihood":{"prompt_tokens":128,"block":64,"reference":{"plugin":"full"}}})";
    cell.lossy = plugin != "full";
    cell.label = label;
    store_.put_cell(cell);
    auto record = make_sample(key, sample);
    record.likelihood = std::move(rows);
    store_.put_sample(record);
  }
  std::vector<LikelihoodStretch> stretches(const LikelihoodOptions& options = {}) {
    return likelihood_stretches(store_.database(), options, notes_);
  }
  std::vector<std::string> notes_;
};

// Each shows the positions that were scored.
TEST_F(LikelihoodTableTest, StretchesArePowersOfTwoByTheFirstToken) {
  put("a", "kivi",
      {{128, 64, 64, 1, 60},
       {192, 64, 128, 2, 50},
       {256, 64, 6.4, 0, 64},
       {1000, 64, 64, 4, 32},
       {1024, 32, 16, 8, 16}});
  const auto found = stretches();
  ASSERT_EQ(found.size(), 5u);
  const std::vector<std::pair<int64_t, int64_t>> ends = {{128, 256}, {256, 320}, {1000, 1064}, {1024, 1056}, {0, -1}};
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(found[i].begin, ends[i].first);
    EXPECT_EQ(found[i].end, ends[i].second);
  }
  EXPECT_EQ(found[0].n_tokens, 128);
  EXPECT_EQ(found[0].nll.value, 192.0 / 128);
  EXPECT_EQ(found[0].kl.value, 3.0 / 128);
  EXPECT_EQ(found[0].top1.value, 110.0 / 128);
  EXPECT_EQ(found[4].n_tokens, 288);
  EXPECT_EQ(found[4].kl.value, 15.0 / 288);
  EXPECT_FALSE(found[4].kl.interval.has_value());  // of one window
  EXPECT_EQ(found[4].kv_share, 0.25);
}

// First, second and last 512 of 1536 tokens, of blocks with 1, 2 and 4 nats' divergence.
TEST_F(LikelihoodTableTest, StretchesOfOneLengthShowAnErrorThatGrows) {
  std::vector<LikelihoodRow> rows;
  for (int64_t position = 64; position < 1536; position += 64) {
    const double kl = position < 512 ? 1 : position < 1024 ? 2 : 4;
    rows.push_back({position, 64, 64, kl, 60});
  }
  put("a", "kivi", rows);
  const auto found = stretches({.stretch = 512});
  ASSERT_EQ(found.size(), 4u);
  const int64_t n_tokens[] = {448, 512, 512, 1472};
  const double kl[] = {1. / 64, 2. / 64, 4. / 64, (7 * 1. + 8 * 2 + 8 * 4) / 1472};
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].begin, i == 0 ? 64 : i < 3 ? 512 * i : 0);
    EXPECT_EQ(found[i].end, i < 3 ? 512 * (i + 1) : -1);
    EXPECT_EQ(found[i].n_tokens, n_tokens[i]);
    EXPECT_DOUBLE_EQ(found[i].kl.value, kl[i]);
  }
}

// By hand: (70 - 64 + 62 - 64) / 128 in the first stretch, (80 - 40) / 64 in the second.
TEST_F(LikelihoodTableTest, TheErrorIsOfTheSameTokensUnderTheReference) {
  put("f", "full", {{128, 64, 64, 0, 64}, {192, 64, 64, 0, 64}, {256, 64, 40, 0, 64}});
  put("a", "kivi", {{128, 64, 70, 1, 60}, {192, 64, 62, 2, 50}, {256, 64, 80, 0, 64}});
  const auto found = stretches();
  ASSERT_EQ(found.size(), 6u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i].error.value().value, 0) << i;  // full's own
  EXPECT_DOUBLE_EQ(found[3].error.value().value, 4. / 128);
  EXPECT_DOUBLE_EQ(found[4].error.value().value, 40. / 64);
  EXPECT_DOUBLE_EQ(found[5].error.value().value, 44. / 192);
  const auto table = likelihood_table(store_.database(), {});
  EXPECT_EQ(std::get<std::string>(table.rows[4][7]), "0.625");
}

TEST_F(LikelihoodTableTest, WithoutTheReferencesBlockThereIsNoError) {
  put("f", "full", {{128, 64, 64, 0, 64}});
  put("a", "kivi", {{128, 64, 70, 1, 60}, {256, 64, 80, 0, 64}});
  auto found = stretches();
  ASSERT_EQ(found.size(), 5u);
  EXPECT_TRUE(found[2].error.has_value());
  EXPECT_FALSE(found[3].error.has_value());
  EXPECT_FALSE(found[4].error.has_value());
  store_.database().execute("UPDATE cell SET model_json = '[]' WHERE key = 'a'");  // another model's
  EXPECT_FALSE(stretches()[2].error.has_value());
  store_.database().execute("UPDATE cell SET model_json = '{}'");
  for (const bool is_same : {false, true}) {  // of the build that the task was read against
    store_.database().execute(
        concat("UPDATE cell SET task_json = json_set(task_json,"
               " '$.likelihood.reference.plugin_sha256', '",
               is_same ? "sha of full" : "another", "')"));
    EXPECT_EQ(stretches()[2].error.has_value(), is_same);
  }
  store_.database().execute("UPDATE sample SET status = 'failed' WHERE cell_key = 'f'");
  EXPECT_FALSE(stretches().front().error.has_value());
}

TEST_F(LikelihoodTableTest, SamplesThatFailedDoNotCount) {
  put("a", "kivi", {{128, 64, 64, 1, 60}});
  put("a", "kivi", {{128, 64, 64, 3, 60}}, 1);
  store_.database().execute("UPDATE sample SET status = 'failed' WHERE sample = 1");
  EXPECT_EQ(stretches().back().n_tokens, 64);
}

TEST_F(LikelihoodTableTest, FewerThanFiveWindowsHaveNoInterval) {
  put("a", "kivi", {{128, 64, 64 * std::log(7.0), 1, 48}});
  const auto table = likelihood_table(store_.database(), {});
  EXPECT_EQ(std::get<std::string>(table.rows[0][5]), "7.000");
  EXPECT_EQ(std::get<std::string>(table.rows[0][6]), "0.0156");
  EXPECT_EQ(std::get<std::string>(table.rows[0][8]), "75.00");
  for (int64_t sample = 1; sample < 4; ++sample) put("a", "kivi", {{128, 64, 64, 1, 40 + sample}}, sample);
  EXPECT_FALSE(stretches().back().top1.interval.has_value());
  put("a", "kivi", {{128, 64, 64, 1, 40}}, 4);
  const auto top1 = stretches().back().top1;
  ASSERT_TRUE(top1.interval.has_value());
  EXPECT_LT(top1.interval->low, top1.value);
  EXPECT_GT(top1.interval->high, top1.value);
  auto view = store_.database().prepare("SELECT mean, low, high, n FROM v_interval WHERE measure = 'top-1'");
  ASSERT_TRUE(view.step());
  EXPECT_DOUBLE_EQ(view.real(0), top1.value);
  EXPECT_EQ(view.real(1), top1.interval->low);
  EXPECT_EQ(view.real(2), top1.interval->high);
  EXPECT_EQ(view.integer(3), 5);
}

TEST_F(LikelihoodTableTest, LabelsNameRowsAndSuspectsAreLeftOut) {
  put("a", "full", {{128, 64, 64, 0, 64}});
  put("b", "kivi", {{128, 64, 64, 1, 60}}, 0, "KIVI 2 bits");
  put("c", "nothing", {{128, 64, 64, 0, 64}});
  store_.database().execute("UPDATE sample SET n_encoded_tokens = 0 WHERE cell_key = 'c'");
  auto found = stretches();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].compressor, "full");
  EXPECT_EQ(found[2].compressor, "KIVI 2 bits");
  EXPECT_EQ(notes_, (std::vector<std::string>{"left out as suspect: nothing  on text: no token was compressed"}));
  EXPECT_EQ(stretches({"all", true}).size(), 6u);
  EXPECT_EQ(stretches({"trial"}).size(), 4u);
  EXPECT_EQ(stretches({"other"}).size(), 0u);
  EXPECT_EQ(stretches({"all", false, {"b"}}).size(), 2u);
}

TEST_F(LikelihoodTableTest, ADatabaseWithoutAnyHasNoRows) {
  store_.put_cell(make_cell("a", "kivi", "t"));
  EXPECT_TRUE(likelihood_table(store_.database(), {}).rows.empty());
}

TEST_F(LikelihoodTableTest, ASampleTakesItsBlocksWithIt) {
  put("a", "kivi", {{128, 64, 64, 1, 60}});
  store_.database().execute("DELETE FROM sample");
  EXPECT_EQ(store_.database().integer("SELECT count(*) FROM likelihood"), 0);
}

}  // namespace
}  // namespace kvc
