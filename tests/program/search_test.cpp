// `kvc search` on the demo model: what it stores and writes, that it keeps the budget, repeats, and goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/query.h"
#include "kvc/check.h"
#include "render/table.h"
#include "store/result_store.h"
#include "stored.h"

namespace kvc::test {
namespace {

namespace fs = std::filesystem;

class SearchTest : public testing::Test {
 protected:
  std::vector<std::string> arguments(const std::string& compressor, const std::string& database,
                                     const std::vector<std::string>& more = {}) {
    const auto file = folder_.write(
        "small.yaml", concat("name: small\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 2\n", "plugin_path: [",
                             KVC_BINARY_DIR, "/tests/plugins]\n", "compressors:\n  - ", compressor, "\n"));
    std::vector<std::string> list = {"search",    file.string(),
                                     "--db",      (folder_ / database).string(),
                                     "--output",  (folder_ / "found.yaml").string(),
                                     "--samples", "2"};
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }
  Finished search(const std::string& compressor, const std::string& database,
                  const std::vector<std::string>& more = {}) {
    return run_program(folder_, arguments(compressor, database, more));
  }
  Table rows(const std::string& database, const std::string& sql) {
    auto store = ResultStore::open_readonly(folder_ / database);
    return run_query(store.database(), sql);
  }
  int64_t number(const std::string& database, const std::string& sql) {
    return std::get<int64_t>(rows(database, sql).rows.at(0).at(0));
  }
  std::string dump(const std::string& database) {
    return write_csv(rows(database, "SELECT * FROM search_candidate ORDER BY search_key, candidate")) +
           write_csv(rows(database, "SELECT * FROM search_layer ORDER BY search_key, candidate, layer"));
  }
  TempFolder folder_;
};

const char* const kTada = "tada: {recent: 16}";
const std::vector<std::string> kSmall = {"--budget", "0.9", "--candidates", "14", "--rescore", "2"};

TEST_F(SearchTest, KeepsTheBudgetByMeasuredBytes) {
  const auto run = search(kTada, "r.sqlite", kSmall);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search_candidate"), 14);
  EXPECT_EQ(number("r.sqlite", "SELECT count(DISTINCT plan) FROM search_candidate"), 14);
  // Only the uniform plans, which the bytes are measured by, may exceed it: prediction is exact.
  EXPECT_EQ(number("r.sqlite",
                   "SELECT count(*) FROM search_candidate AS c JOIN search AS s ON s.key = c.search_key"
                   " WHERE c.family <> 'uniform' AND c.kv_bytes > 0.9 * s.kv_bytes_fp16"),
            0);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM v_search_candidate WHERE rank = 1 AND kv_share <= 0.9"), 1);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search_candidate WHERE n_correct IS NOT NULL"), 2);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM v_search_candidate WHERE n_correct IS NOT NULL AND nll_rank > 2"),
            0);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search_layer"), 14 * 4);
}

// The likelihood is read through the cache: fewer bits everywhere, less of it.
TEST_F(SearchTest, FewerBitsEverywhereAreLessLikely) {
  ASSERT_EQ(search(kTada, "r.sqlite", kSmall).exit_code, 0);
  EXPECT_EQ(number("r.sqlite",
                   "SELECT (SELECT nll FROM search_candidate WHERE plan = '2,2,2,2') >"
                   "       (SELECT nll FROM search_candidate WHERE plan = '8,8,8,8')"),
            1);
}

TEST_F(SearchTest, ASeedRepeatsAndAnotherDoesNot) {
  const std::vector<std::string> random = {"--budget", "0.9", "--candidates", "14", "--rescore", "1"};
  auto other = random;
  other.insert(other.end(), {"--seed", "5"});
  ASSERT_EQ(search(kTada, "a.sqlite", random).exit_code, 0);
  ASSERT_EQ(search(kTada, "b.sqlite", random).exit_code, 0);
  ASSERT_EQ(search(kTada, "c.sqlite", other).exit_code, 0);
  EXPECT_EQ(dump("a.sqlite"), dump("b.sqlite"));
  const auto plans = "SELECT plan FROM search_candidate ORDER BY candidate";
  EXPECT_NE(write_csv(rows("a.sqlite", plans)), write_csv(rows("c.sqlite", plans)));
}

TEST_F(SearchTest, WhatIsStoredIsNotScoredAgain) {
  ASSERT_EQ(search(kTada, "r.sqlite", kSmall).exit_code, 0);
  const auto before = dump("r.sqlite");
  const auto again = search(kTada, "r.sqlite", kSmall);
  EXPECT_NE(again.out.find("0 candidates scored now, 14 already stored"), std::string::npos) << again.out;
  EXPECT_EQ(dump("r.sqlite"), before);
  const auto tighter = search(kTada, "r.sqlite", {"--budget", "0.85", "--candidates", "14", "--rescore", "2"});
  EXPECT_EQ(tighter.out.find(" 14 candidates scored now"), std::string::npos) << tighter.out;  // they share some
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search"), 2);
}

TEST_F(SearchTest, KilledAtFourMomentsItEndsAsIfUndisturbed) {
  ASSERT_EQ(search(kTada, "whole.sqlite", kSmall).exit_code, 0);
  const auto left = kill_at_rows(folder_, arguments(kTada, "killed.sqlite", kSmall), folder_ / "killed.sqlite",
                                 "search_candidate", {0, 2, 5, 8});
  RecordProperty("candidates_at_kills", testing::PrintToString(left));
  EXPECT_GE(std::ranges::count_if(left, [](int64_t n) { return 0 < n && n < 14; }), 2)
      << "of 14 candidates the kills left " << testing::PrintToString(left);
  ASSERT_EQ(search(kTada, "killed.sqlite", kSmall).exit_code, 0);
  EXPECT_EQ(dump("killed.sqlite"), dump("whole.sqlite"));
}

TEST_F(SearchTest, TheBestRunsAsAnExperimentOfItsOwn) {
  const auto run = search(kTada, "r.sqlite", kSmall);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto plan =
      std::get<std::string>(rows("r.sqlite", "SELECT plan FROM v_search_candidate WHERE rank = 1").rows.at(0).at(0));
  EXPECT_NE(run.out.find("bits " + plan), std::string::npos) << run.out;
  const auto found =
      run_program(folder_, {"run", (folder_ / "found.yaml").string(), "--db", (folder_ / "found.sqlite").string()});
  ASSERT_EQ(found.exit_code, 0) << found.err << read_file(folder_ / "found.yaml");
  EXPECT_EQ(number("found.sqlite", "SELECT count(*) FROM sample WHERE status = 'ok'"), 2);  // its limit
  const auto options = nlohmann::json::parse(
      std::get<std::string>(rows("found.sqlite", "SELECT options_json FROM cell").rows.at(0).at(0)));
  EXPECT_EQ(options["bits"], plan);
  EXPECT_EQ(options["recent"], 16);
}

// The file may ask for the search itself, and say where its rows go.
TEST_F(SearchTest, AFileOfKindSearchIsRunLikeAnyOther) {
  ASSERT_EQ(search(kTada, "r.sqlite", kSmall).exit_code, 0);
  const auto file = folder_.write(
      "kind.yaml",
      concat("name: small\nkind: search\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 2\ndatabase: ",
             (folder_ / "k.sqlite").string(),
             "\nsearch: {budget: 0.9, candidates: 14, rescore: 2, samples: 2}\ncompressors:\n  - ", kTada));
  const auto run = run_program(folder_, {"run", file.string()});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(dump("k.sqlite"), dump("r.sqlite"));
  const auto found = run_program(folder_, {"validate", (folder_ / "small-searched.yaml").string(), "no.yaml"});
  EXPECT_EQ(found.exit_code, 2);  // the other file
  EXPECT_NE(found.out.find("small-searched.yaml is valid: 1 cells, 2 samples"), std::string::npos) << found.out;
  EXPECT_NE(found.err.find("no.yaml"), std::string::npos) << found.err;
}

TEST_F(SearchTest, ASearchBelongsToItsKind) {
  const auto refusal = [&](const std::string& kind, const std::string& section) {
    const auto file =
        folder_.write("bad.yaml", concat("name: bad\n", kind, "model: models/demo\ntasks: [demo/lookup]\n", section,
                                         "compressors:\n  - ", kTada));
    const auto run = run_program(folder_, {"run", file.string(), "--db", (folder_ / "none.sqlite").string()});
    EXPECT_EQ(run.exit_code, 2);
    return run.err;
  };
  EXPECT_NE(
      refusal("", "search: {budget: 0.5}\n").find("bad.yaml:4:9: error: search is of kind search, and kind is eval"),
      std::string::npos);
  EXPECT_NE(refusal("kind: search\n", "").find("missing key 'search'"), std::string::npos);
  EXPECT_NE(refusal("kind: search\n", "search: {budget: 1.5}\n").find("bad.yaml:5:18"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.sqlite"));
}

// Another plugin, whose bytes are known by heart: `kept` of the 2 bytes that 16 bits take.
TEST_F(SearchTest, SearchesAnyPluginsIntegersByLayer) {
  const auto run = search("truncates", "r.sqlite", {"--option", "kept", "--budget", "0.75", "--candidates", "60"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(number("r.sqlite",
                   "SELECT count(*) FROM search_layer AS l JOIN search AS s ON s.key = l.search_key"
                   " WHERE 8 * l.kv_bytes <> l.value * s.kv_bytes_fp16"),
            0);
  // Of 4 layers of 1, 2 or 3 bytes, those of at most 6: 1 + 4 + (6 + 4) = 15 plans; and two uniform ones beyond.
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search_candidate"), 17);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM v_search_candidate WHERE fits"), 15);
}

TEST_F(SearchTest, LevelsMayBeFewerThanThePluginOffers) {
  ASSERT_EQ(search(kTada, "r.sqlite", {"--levels", "4,2", "--budget", "1", "--candidates", "99"}).exit_code, 0);
  EXPECT_EQ(number("r.sqlite", "SELECT count(*) FROM search_candidate"), 16);  // 2 to the 4
}

TEST_F(SearchTest, RefusesWhatCannotBeSearchedInOneLine) {
  const auto refusal = [&](const std::string& compressor, const std::vector<std::string>& more) {
    const auto run = search(compressor, "none.sqlite", more);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    return run.err;
  };
  const auto expect_part = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_part(refusal("kivi", {"--budget", "0.5"}), "kivi: it has no option with one integer per layer");
  expect_part(refusal("kivi", {"--budget", "0.5", "--option", "bits"}), "expected one integer per layer");
  expect_part(refusal("truncates", {"--budget", "0.8"}), "expected --option with one of: kept, ignored");
  expect_part(refusal("truncates", {"--budget", "0.8", "--option", "kep"}), "did you mean 'kept'");
  expect_part(refusal("full\n  - tada", {"--budget", "0.5"}), "names 2 compressors");
  expect_part(refusal("chain: [snapkv: {}, kivi: {}]", {"--budget", "0.5"}),
              "chain is a composition, expected a plugin");
  expect_part(refusal("tada: {bits: 4}", {"--budget", "0.5"}), "small.yaml:7:5: error: option 'bits' is searched");
  expect_part(refusal("tada", {"--budget", "0.5", "--levels", "3"}), "level 3 of option 'bits', allowed: 2, 4, 8");
  EXPECT_FALSE(fs::exists(folder_ / "none.sqlite"));
  const auto tight = search("tada: {recent: 16}", "none.sqlite", {"--budget", "0.01"});
  EXPECT_EQ(tight.exit_code, 2);
  expect_part(tight.err, "the budget is 0.01 of 16-bit storage, the smallest caches need 0.");
  EXPECT_FALSE(fs::exists(folder_ / "found.yaml"));
}

}  // namespace
}  // namespace kvc::test
