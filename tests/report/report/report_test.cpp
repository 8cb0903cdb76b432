// The page that `kvc report` writes, its charts, and what they are computed from.
#include "report/report.h"

#include <regex>
#include <set>

#include "../../store/store/store_fixture.h"
#include "render/escape.h"
#include "report/html.h"
#include "report/pareto.h"
#include "report/svg.h"

namespace kvc {
namespace {

using testing::Test;

class Reports : public StoreTest {
 protected:
  // Two compressors on one task; the second answers sample 1 otherwise.
  void fill() {
    auto store = ResultStore::open(path_);
    auto full = make_cell("aaaaaaaaaaaaaaaa1", "full", "demo/lookup");
    auto lossy = make_cell("bbbbbbbbbbbbbbbb2", "lossy", "demo/lookup");
    lossy.lossy = true;
    lossy.bits = 2;
    store.put_cell(full);
    store.put_cell(lossy);
    for (int64_t i = 0; i < 2; ++i) {
      store.put_sample(make_sample(full.key, i));
      auto other = make_sample(lossy.key, i, i == 1 ? 0 : 1);
      if (i == 1) {
        other.generation = " 5</script><b>&amp;";
        other.token_ids_json = "[7,9]";
      }
      store.put_sample(other);
    }
  }

  Report report(const ReportOptions& options = {}) {
    auto store = ResultStore::open_readonly(path_);
    return make_report(store.database(), options);
  }
};

std::set<std::string> all_of(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) found.insert((*it)[1]);
  return found;
}

TEST_F(Reports, EveryLinkLeadsToSomethingOnThePage) {
  fill();
  const auto html = report().html;
  const auto links = all_of(html, "href=\"#([^\"]+)\""), ids = all_of(html, " id=\"([^\"]+)\"");
  EXPECT_GE(links.size(), 8u);
  for (const auto& link : links) EXPECT_TRUE(ids.contains(link)) << link;
}

TEST_F(Reports, NoAddressOfANetworkStandsInThePage) {
  fill();
  const auto html = report().html;
  EXPECT_EQ(html.find("http"), html.find("http-equiv"));
  EXPECT_EQ(html.find("http", html.find("http-equiv") + 1), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
}

TEST_F(Reports, AGenerationCannotEndTheScriptItStandsIn) {
  fill();
  const auto html = report().html;
  EXPECT_NE(html.find("5\\u003c/script>"), std::string::npos);
  EXPECT_EQ(html.find("5</script>"), std::string::npos);
}

TEST_F(Reports, CountsWhatItHolds) {
  fill();
  const auto made = report();
  EXPECT_EQ(made.n_cells, 2);
  EXPECT_EQ(made.n_samples, 4);
  EXPECT_EQ(made.n_embedded, 4);
  EXPECT_EQ(report({.samples_per_task = 0}).n_embedded, 0);
}

TEST_F(Reports, SamplesOnWhichCompressorsDifferAreTaken) {
  fill();
  const auto html = report({.samples_per_task = 1}).html;
  EXPECT_NE(html.find("{\"sample\":1,"), std::string::npos);
  EXPECT_EQ(html.find("{\"sample\":0,"), std::string::npos);
}

TEST_F(Reports, TokensOfAGenerationAreThePages) {
  fill();
  const auto cut = [](auto&, auto&, const std::vector<int64_t>& ids) {  // the last is behind a stop string
    return std::vector<std::string>{" 5</scr", ids.size() == 2 && ids[1] == 9 ? "ipt><b>&amp;\nQ:" : "?"};
  };
  ReportOptions options;
  options.token_texts = cut;
  const auto html = report(options).html;
  EXPECT_NE(html.find("\"tokens\":[\" 5\\u003c/scr\",\"ipt>\\u003cb>&amp;\"]"), std::string::npos);
  EXPECT_NE(html.find("in 3 of them the first divergent character"), std::string::npos);  // whose texts are others
  EXPECT_NE(report().html.find("The first divergent character is marked"), std::string::npos);
}

TEST_F(Reports, CompressorsOfOneNameAreToldApartByTheirSettings) {
  {
    auto store = ResultStore::open(path_);
    for (const auto* weights : {"dtype", "w2"}) {
      auto cell = make_cell(concat("aaaaaaaaaaaaaa", weights), "full", "demo/lookup");
      cell.generation_json = concat("{\"dtype\":\"fp32\",\"weights\":\"", weights, "\"}");
      store.put_cell(cell);
      store.put_sample(make_sample(cell.key, 0));
    }
  }
  const auto html = report().html;
  for (const auto* weights : {"(weights=dtype)", "(weights=w2)"}) EXPECT_NE(html.find(weights), std::string::npos);
  EXPECT_EQ(html.find("dtype=fp32"), std::string::npos);
  EXPECT_EQ(html.find("Not compared"), std::string::npos);
}

TEST_F(Reports, TheBaselineIsWhatAnsweredMostOfTheOthersTasks) {
  fill();
  {
    auto store = ResultStore::open(path_);
    for (const auto* task : {"long/a", "long/b"}) {  // more tasks, none of which another compressor answered
      auto cell = make_cell(concat("cccccccccccccc", task), "full", task);
      cell.generation_json = R"({"max_prompt_tokens":3500})";
      store.put_cell(cell);
      store.put_sample(make_sample(cell.key, 0));
    }
  }
  const auto html = report().html;
  EXPECT_NE(html.find("Every compressor compared with full max_prompt_tokens=none"), std::string::npos);
  EXPECT_EQ(html.find("Not compared"), std::string::npos);
}

TEST_F(Reports, UnknownNamesAreRefusedInOneLine) {
  fill();
  EXPECT_NE(message_of([&] { report({.experiment = "trail"}); }).find("did you mean 'trial'"), std::string::npos);
  EXPECT_NE(message_of([&] { report({.baseline = "ful"}); }).find("did you mean 'full'"), std::string::npos);
}

TEST_F(Reports, AnEmptyDatabaseIsRefused) {
  ResultStore::open(path_);
  EXPECT_NE(message_of([&] { report(); }).find("no cells, nothing to report"), std::string::npos);
}

ParetoPoint point(double kv, double score) {
  ParetoPoint made;
  made.kv_percent = kv;
  made.score = score;
  return made;
}

TEST(Pareto, MarksWhatAnotherBeats) {
  std::vector<ParetoPoint> points = {point(100, 90), point(50, 90), point(20, 40), point(30, 40), point(10, 40)};
  points.push_back(point(50, 90));  // an equal does not beat
  mark_dominated(points);
  std::vector<bool> dominated;
  for (const auto& one : points) dominated.push_back(one.is_dominated);
  EXPECT_EQ(dominated, (std::vector<bool>{true, false, true, true, false, false}));
}

TEST(Pareto, HypervolumeIsTheAreaBelowTheSteps) {
  std::vector<ParetoPoint> points = {point(10, 40), point(50, 90), point(130, 100)};
  mark_dominated(points);
  EXPECT_DOUBLE_EQ(hypervolume(points), (40 * 40 + 50 * 90) / 1e4);  // 10..50 at 40, 50..100 at 90, none beyond
}

TEST(Pareto, MeanOfMeansAddsDistancesInSquares) {
  const auto mean = mean_of({{50, Interval{47, 54}}, {70, Interval{66, 73}}});
  EXPECT_DOUBLE_EQ(mean.score, 60);
  EXPECT_DOUBLE_EQ(mean.interval->low, 60 - 5.0 / 2);   // 3, 4
  EXPECT_DOUBLE_EQ(mean.interval->high, 60 + 5.0 / 2);  // 4, 3
}

TEST(Svg, TicksAreRoundAndCover) {
  EXPECT_EQ(round_ticks(0, 100, 10), (std::vector<double>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_EQ(round_ticks(3, 17, 4), (std::vector<double>{0, 5, 10, 15, 20}));
  EXPECT_EQ(round_ticks(0, 0, 4).front(), 0);
  EXPECT_GT(round_ticks(0, 0, 4).back(), 0);
}

TEST(Svg, TextIsEscaped) { EXPECT_EQ(escape_html("<a b=\"&\">\x01"), "&lt;a b=&quot;&amp;&quot;&gt;\xEF\xBF\xBD"); }

TEST(Html, NotesTitlesAndCellsAreEscaped) {
  Table table;
  table.title = "<t>";
  table.columns = {{"<c>"}};
  table.rows = {{std::string("<r>")}};
  table.notes = {"<n>"};
  const auto html = html_table(table);
  for (const char* text : {"<t>", "<c>", "<r>", "<n>"}) EXPECT_EQ(html.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace kvc
