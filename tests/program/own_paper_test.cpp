// A paper of one's own: tables and figures of any experiment, from a database made by hand.
#include <gtest/gtest.h>

#include "../store/store/store_fixture.h"
#include "store/result_store.h"
#include "support/program.h"

namespace kvc::test {
namespace {

constexpr int64_t kQuestions = 10;

void put_cell(ResultStore& store, const std::string& plugin, const std::string& task, int64_t n_right,
              int64_t n_answered = kQuestions) {
  auto cell = make_cell(plugin + task, plugin, task);
  cell.label = plugin == "low" ? "Low & 2_bits" : "";
  cell.options_label = "defaults";
  cell.bits = plugin == "low" ? 2 : 16;
  cell.n_samples = kQuestions;
  store.put_cell(cell);
  for (int64_t i = 0; i < n_answered; ++i) {
    auto sample = make_sample(cell.key, i, i < n_right);
    sample.kv_bytes = plugin == "low" ? 250 : 1000;
    sample.kv_bytes_fp16 = 1000;
    store.put_sample(sample);
  }
}

// Of "low": two blocks of 16 tokens.
void put_text(ResultStore& store) {
  put_cell(store, "low", "text", 0, 0);
  auto sample = make_sample("lowtext", 0, true);
  sample.kv_bytes = 250, sample.kv_bytes_fp16 = 1000;
  sample.likelihood = {{1024, 16, 30, 0.8, 16}, {1040, 16, 30, 2.4, 12}};
  store.put_sample(sample);
}

class OwnPaper : public testing::Test {
 protected:
  // Two tasks whose names end alike.
  OwnPaper() {
    auto store = ResultStore::open(database_);
    put_cell(store, "full", "a/4k", 9), put_cell(store, "full", "b/4k", 8);
    put_cell(store, "low", "a/4k", 6), put_cell(store, "low", "b/4k", 4);
  }
  Finished run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--db", database_.string()});
    return run_program(folder_, arguments);
  }

  TempFolder folder_;
  std::filesystem::path database_ = folder_ / "r.sqlite";
};

TEST_F(OwnPaper, ATableOfTasksHasLabelsSizesRanksAndTheMean) {
  const auto shown = run({"table", "tasks", "--format", "csv"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("Low & 2_bits,2"), std::string::npos) << shown.out;
  const auto latex = run({"table", "tasks", "--format", "latex", "--columns", "average,KV size", "--no-intervals"}).out;
  EXPECT_NE(latex.find("\nfull & 85.0 & 100.0 \\\\\n"), std::string::npos) << latex;
  EXPECT_NE(latex.find("\nLow \\& 2\\_bits & 50.0 & 25.0 \\\\\n"), std::string::npos) << latex;
  const auto markdown = run({"table", "tasks", "--title", "Mine"}).out;
  EXPECT_NE(markdown.find("**Mine**"), std::string::npos) << markdown;
  for (const char* task : {"a/4k", "b/4k"}) EXPECT_NE(markdown.find(task), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| 90.0 [59.6, 98.2]"), std::string::npos) << markdown;  // Wilson's of 9 of 10
}

// 190 of 1,000 bytes are nearest to 3 bits of 16; 8 * (190 - 30) / 512 are the bits of each encoded number; blocks of
// 16 tokens whose KL is 0.8 and 2.4 nats make 0.1 nats a token. A text's score is no score of a task.
TEST_F(OwnPaper, ATableOfLevelsOrdersByMeasuredSizesAndReadsTexts) {
  {
    auto store = ResultStore::open(database_);
    put_text(store);
    store.put_sizes("fulla/4k", {{2048, "", 1000, 1000, 1000, 0, 0}});
    for (const char* key : {"lowa/4k", "lowtext"}) store.put_sizes(key, {{2048, "", 190, 1000, 30, 0, 512}});
    store.put_sizes("lowb/4k", {{8192, "", 100, 1000, 30, 0, 512}});
  }
  const auto shown = run({"table", "by_size", "--no-intervals"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(run({"table", "levels", "--no-intervals"}).out, shown.out) << "its old name";
  const auto row = [&](const std::string& name) {
    auto line = shown.out.substr(shown.out.find("| " + name));
    line = line.substr(0, line.find('\n'));
    std::erase(line, ' ');
    return line;
  };
  EXPECT_EQ(row("16 bits"), "|16bits|full|100.0|||||90.0|80.0|") << shown.out;
  EXPECT_EQ(row("3 bits"), "|3bits|Low&2_bits|19.0|2.50|25.0|100.0|87.5|60.0|40.0|") << shown.out;
  EXPECT_LT(shown.out.find("| 16 bits"), shown.out.find("| 3 bits")) << "the largest is first";
}

TEST_F(OwnPaper, ALineOfDivergenceIsAPluginsTextsByTheirBytes) {
  {
    auto store = ResultStore::open(database_);
    put_text(store);
  }
  const auto drawn = run({"figure", "lines_kl", "-o", (folder_ / "p.svg").string()});
  if (drawn.err.find("gnuplot") != std::string::npos) GTEST_SKIP() << drawn.err;
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  const auto points = read_file(folder_ / "p.dat");
  EXPECT_NE(points.find("panel 'text: quantization', series 'low'"), std::string::npos) << points;
  EXPECT_NE(points.find("\n25 "), std::string::npos) << points;
  EXPECT_NE(points.find(" 100 "), std::string::npos) << points;
}

TEST_F(OwnPaper, RowsOfOtherQuestionsAreNotRanked) {
  {
    auto store = ResultStore::open(database_);
    put_cell(store, "third", "a/4k", 2, 3);
    put_cell(store, "third", "b/4k", 6, 10);
    store.database().execute(
        "UPDATE cell SET is_lossy = 1 WHERE plugin <> 'full'; UPDATE sample SET kv_bytes = 500 WHERE cell_key LIKE "
        "'third%'");
  }
  const auto shown = run({"table", "tasks"});
  EXPECT_NE(shown.out.find("not ranked, because their rows have different questions: a/4k"), std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find("not finished: third on a/4k: 7 of 10 missing"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("**90.0**"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("**60.0**"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("**80.0**"), std::string::npos) << "full precision is no contestant\n" << shown.out;
}

TEST_F(OwnPaper, EveryTableIsThereAsLatexAndHtml) {
  for (const char* name : {"summary", "sizes"}) {
    const auto latex = run({"table", name, "--format", "latex", "--standalone"});
    EXPECT_EQ(latex.exit_code, 0) << latex.err;
    EXPECT_NE(latex.out.find("\\end{document}"), std::string::npos) << latex.out;
    const auto html = run({"table", name, "--format", "html", "--standalone"});
    EXPECT_NE(html.out.find("</html>"), std::string::npos) << html.out;
  }
}

TEST_F(OwnPaper, WrongNamesAreToldTheNearest) {
  EXPECT_NE(run({"table", "taskz"}).err.find("did you mean 'tasks'"), std::string::npos);
  EXPECT_NE(run({"table", "tasks", "--columns", "avarage"}).err.find("did you mean 'average'"), std::string::npos);
  EXPECT_NE(run({"table", "tasks", "--experiment", "trail"}).err.find("did you mean 'trial'"), std::string::npos);
  EXPECT_NE(run({"figure", "paretto", "-o", "p.svg"}).err.find("did you mean 'pareto'"), std::string::npos);
}

TEST_F(OwnPaper, AFigureShowsThePointsOfTheTable) {
  const auto picture = (folder_ / "p.svg").string();
  const auto drawn = run({"figure", "pareto", "-o", picture, "--no-title", "--width", "900"});
  if (drawn.err.find("gnuplot") != std::string::npos) GTEST_SKIP() << drawn.err;
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  const auto points = read_file(folder_ / "p.dat");  // x, its text, accuracy
  EXPECT_NE(points.find("panel 'mean of 2 tasks', series 'Low & 2_bits': x label y low high\n25 "), std::string::npos)
      << points;
  EXPECT_NE(points.find(" 85 "), std::string::npos) << points;
  const auto svg = read_file(picture);
  EXPECT_NE(svg.find("Low &amp; 2_bits"), std::string::npos) << "the legend names it as its experiment does";
  EXPECT_EQ(svg.find("Accuracy against"), std::string::npos) << "the title was not wanted";
  for (const char* name : {"bars", "lines"}) {
    EXPECT_EQ(run({"figure", name, "-o", (folder_ / "q.svg").string()}).exit_code, 0) << name;
  }
  const auto none = run({"figure", "pareto_kl", "-o", picture});
  EXPECT_NE(none.err.find("has no data for it from trial"), std::string::npos) << none.err;
}

TEST_F(OwnPaper, TheLabelOfAnExperimentNamesItsCompressorEverywhere) {
  EXPECT_NE(run({"table"}).out.find("| Low & 2_bits "), std::string::npos);
  const auto compared = run_program(folder_, {"compare", database_.string(), "full", "Low & 2_bits"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_NE(compared.out.find("| Low & 2_bits | a/4k"), std::string::npos) << compared.out;
}

TEST_F(OwnPaper, ExperimentsAreListedAndRemovedWithTheCellsThatAreTheirsAlone) {
  {
    auto store = ResultStore::open(database_);
    auto shared = make_cell("fulla/4k", "full", "a/4k");  // in a second experiment, too
    shared.experiment = "other";
    shared.options_label = "defaults", shared.bits = 16, shared.n_samples = kQuestions;
    store.put_cell(shared);
    store.put_sample(failed_sample("lowb/4k", 99));
  }
  const auto listed = run_program(folder_, {"ls", database_.string(), "--format", "csv"});
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_NE(listed.out.find("trial,eval,tiny,2,4,0,1,0,40"), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("other,eval,tiny,1,1,0,0,0,10"), std::string::npos) << listed.out;

  const auto asked = run({"rm", "trial"});
  EXPECT_EQ(asked.out,
            "trial: 3 cells with 31 samples are its alone, 1 cells are other experiments', too\n"
            "nothing was removed; say --yes to remove it\n");
  EXPECT_EQ(run({"rm", "trial", "--yes"}).exit_code, 0);
  auto store = ResultStore::open_readonly(database_);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM sample"), 10);
  EXPECT_EQ(store.database().integer("SELECT count(*) FROM experiment_cell"), 1);
  EXPECT_NE(run({"rm", "trial", "--yes"}).err.find("unknown experiment 'trial'"), std::string::npos);
}

}  // namespace
}  // namespace kvc::test
