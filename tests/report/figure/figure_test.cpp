// What is expected here was worked out by hand from rows that stand in the tests.
#include <fstream>

#include "../../store/store/store_fixture.h"
#include "analysis/entries.h"
#include "figure/draw_figure.h"
#include "figure/gnuplot_script.h"
#include "figure/point_labels.h"
#include "text/files.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

class FigureTest : public StoreTest {
 protected:
  FigureLayout layout(const std::string& kind, const std::string& more = "") {
    const auto file = folder_ / "layout.yaml";
    std::ofstream(file) << "title: t\nkind: " << kind << "\nx: {label: a, unit: b}\ny: {label: c}\n" << more;
    return load_figure_layout(file);
  }
  std::string error_of(const std::string& text) {
    const auto file = folder_ / "layout.yaml";
    std::ofstream(file) << text;
    const auto message = message_of([&] { load_figure_layout(file); });
    return message.starts_with(file.string()) ? message.substr(file.string().size()) : message;
  }
  // What `sql` gives; it reads entry in a clause that changes nothing.
  FigureData data(const std::string& kind, const std::string& sql) {
    return exact_data(kind, sql + " LIMIT (SELECT 1000 + count(*) FROM entry)");
  }
  FigureData exact_data(const std::string& kind, const std::string& sql) {
    auto store = ResultStore::open(path_);
    make_entries(store.database(), {"trial"}, false);
    return read_figure_data(store.database(), "p:1", sql, layout(kind, kind == "heat" ? "z: {label: d}\n" : ""));
  }
  std::string dat(const std::string& kind, const std::string& sql) { return write_dat(data(kind, sql)); }
  std::string data_error(const std::string& kind, const std::string& sql) {
    return message_of([&] { data(kind, sql); });
  }
  // The figure of results/figures on the database at path_.
  std::string dat_of(const std::string& name, bool with_suspects = false) {
    const auto figure = find_figure(KVC_SOURCE_DIR, name);
    auto store = ResultStore::open_readonly(path_);
    notes_ = make_entries(store.database(), {"trial"}, with_suspects);
    return write_dat(
        read_figure_data(store.database(), name, read_file(figure.sql), load_figure_layout(figure.layout)));
  }
  std::vector<std::string> notes_;
};

TEST_F(FigureTest, BlocksStandByPanelAndSeriesInTheOrderOfTheQuery) {
  EXPECT_EQ(dat("lines",
                "SELECT * FROM (SELECT 'Q' AS panel, 'b' AS series, 2 AS x, 0.25 AS y, NULL AS low, 1e999 AS high"
                " UNION ALL SELECT 'P', 'a', 1.5, -3, 1, 2 UNION ALL SELECT 'Q', 'a', 1, 7, 6, 8"
                " UNION ALL SELECT 'Q', 'b', 4, NULL, 0, 0)"),
            "# index 0, panel 'Q', series 'b': x label y low high\n2 \"2\" 0.25 ? ?\n4 \"4\" ? 0 0\n\n\n"
            "# index 1, panel 'Q', series 'a': x label y low high\n1 \"1\" 7 6 8\n\n\n"
            "# index 2, panel 'P', series 'a': x label y low high\n1.5 \"1.5\" -3 1 2\n");
}

TEST_F(FigureTest, TextsAreCategoriesAndStackedPartsLieOnOneAnother) {
  EXPECT_EQ(dat("stacked",
                "SELECT * FROM (SELECT 'one' AS x, 'codes' AS series, 25.0 AS y UNION ALL SELECT 'two', 'codes', 12.5"
                " UNION ALL SELECT 'two', 'scales', 6.25 UNION ALL SELECT 'one', 'rest \"x\"', 5)"),
            "# index 0, panel '', series 'codes': x label y low high\n1 \"one\" 25 0 25\n2 \"two\" 12.5 0 12.5\n\n\n"
            "# index 1, panel '', series 'scales': x label y low high\n2 \"two\" 6.25 12.5 18.75\n\n\n"
            "# index 2, panel '', series 'rest 'x'': x label y low high\n1 \"one\" 5 25 30\n");
}

TEST_F(FigureTest, QueriesThatDoNotFitTheirKindAreRefused) {
  EXPECT_EQ(data_error("lines", "SELECT 1 AS x, 2 AS z"),
            "figure p:1: unknown column of its query 'z'; known: x, panel, series, method, bits, y, low, high");
  EXPECT_EQ(data_error("lines", "SELECT 1 AS x"), "figure p:1: its query has no column 'y'");
  EXPECT_EQ(data_error("lines", "SELECT 1 AS x, 2 AS y, 3 AS y"), "figure p:1: its query has two columns 'y'");
  EXPECT_EQ(data_error("box", "SELECT 1 AS x, 2 AS median"), "figure p:1: its query has no column 'low'");
  EXPECT_EQ(data_error("lines", "SELECT 1 AS x, 2 AS y UNION ALL SELECT 'a', 2"),
            "figure p:1: x is 'a', expected only numbers or only texts");
  EXPECT_EQ(data_error("lines", "SELECT 'a' AS x, 2 AS y UNION ALL SELECT 3, 2"),
            "figure p:1: x is '3', expected only numbers or only texts");
  EXPECT_EQ(data_error("lines", "SELECT NULL AS x, 2 AS y"), "figure p:1: its query has a row whose x is NULL");
  EXPECT_EQ(message_of([&] { exact_data("lines", "DELETE FROM cell RETURNING key AS x, 1 AS y"); }),
            "figure p:1: its query writes, expected one SELECT");
}

// All cells of the database, suspect ones among them, are not what a figure is made of.
TEST_F(FigureTest, QueriesThatDoNotReadEntryAreRefused) {
  for (const std::string sql : {"SELECT 1 AS x, 2 AS y -- entry", "SELECT bits AS x, n_samples AS y FROM cell",
                                "WITH e AS (SELECT * FROM entry) SELECT 'entry' AS x, 2 AS y"}) {
    EXPECT_EQ(message_of([&] { exact_data("lines", sql); }),
              "figure p:1: its query does not read entry, the table of the cells shown");
  }
  EXPECT_EQ(exact_data("lines", "SELECT 1 AS x, count(*) AS y FROM entry").n_points(), 1u);
}

TEST_F(FigureTest, LayoutsAreRefusedWithTheirPlace) {
  EXPECT_EQ(error_of("title: t\nkind: pie\nx: {label: a}\ny: {label: b}\n"),
            ":2:7: error: kind is 'pie', allowed: lines, bars, stacked, scatter, box, heat");
  EXPECT_EQ(error_of("title: t\nkind: lines\nx: {label: a, min: 2, max: 1}\ny: {label: b}\n"),
            ":3:4: error: x.min is 2, expected less than max, 1");
  EXPECT_EQ(error_of("title: t\nkind: lines\nx: {label: a, log: true, min: 0}\ny: {label: b}\n"),
            ":3:4: error: x is logarithmic, expected min and max above 0");
  EXPECT_EQ(error_of("title: t\nkind: lines\nx: {label: a}\ny: {label: b}\nz: {label: c}\n"),
            ":5:1: error: unknown key 'z'; known: title, kind, x, y, fills, note, names_points, front, bounds, width, "
            "height");
  EXPECT_EQ(message_of([] { find_figure(KVC_SOURCE_DIR, "gear:66"); }).substr(0, 47),
            "unknown figure 'gear:66' (did you mean 'gear:6'");
}

TEST_F(FigureTest, EveryFigureOfThePapersHasItsQueryAndItsExperiments) {
  const auto figures = all_figures(KVC_SOURCE_DIR);
  EXPECT_EQ(figures.size(), 33u);
  auto store = ResultStore::open(path_);
  make_entries(store.database(), {"trial"}, false);
  for (const auto& figure : figures) {
    const auto layout = load_figure_layout(figure.layout);
    EXPECT_EQ(layout.fills.size(), figure.is_own ? 0u : 2u) << figure.name;  // the paper's and the embedded model's
    for (const auto& file : layout.fills)
      EXPECT_TRUE(fs::exists(fs::path(KVC_SOURCE_DIR) / file)) << figure.name << " " << file;
    EXPECT_EQ(read_figure_data(store.database(), figure.name, read_file(figure.sql), layout).n_points(), 0u);
  }
}

// Two samples of 100 + 150 bytes of codes, 30 of scales and 10 of outliers, where 16 bits take 1000 each.
TEST_F(FigureTest, WhatTheCacheConsistsOfIsAShareOfSixteenBits) {
  auto store = ResultStore::open(path_);
  auto cell = make_cell("a", "gear", "task");
  cell.lossy = true;
  store.put_cell(cell);
  store.put_cell(make_cell("b", "full", "task"));
  for (int64_t i = 0; i < 2; ++i) {
    auto sample = make_sample("a", i);
    sample.bytes = {{0, "k", "codes", 100}, {1, "v", "codes", 150},       {0, "k", "scales", 20},
                    {0, "k", "zeros", 10},  {0, "v", "sparse_values", 6}, {0, "v", "sparse_index", 4}};
    store.put_sample(sample);
  }
  store.put_sample(make_sample("b", 0));
  EXPECT_EQ(dat_of("gear:6"),
            "# index 0, panel '', series 'codes': x label y low high\n1 \"gear\" 25 0 25\n\n\n"
            "# index 1, panel '', series 'scales and zeros': x label y low high\n1 \"gear\" 3 25 28\n\n\n"
            "# index 2, panel '', series 'sparse': x label y low high\n1 \"gear\" 1 28 29\n");
}

// 3 of 4 right: Wilson's interval is 30.06 to 95.44 %; 250 of 1000 bytes are 25 %.
TEST_F(FigureTest, AccuracyStandsOverSizeWithItsInterval) {
  auto store = ResultStore::open(path_);
  auto cell = make_cell("a", "kivi", "task");
  cell.label = "KIVI 2 bits";
  store.put_cell(cell);
  for (int64_t i = 0; i < 4; ++i) store.put_sample(make_sample("a", i, i < 3));
  store.put_sample(failed_sample("a", 4));
  const auto text = dat_of("gear:4c");
  const std::string head = "# index 0, panel 'task', series 'KIVI': x label y low high\n25 \"25.0\" 75 ";
  ASSERT_EQ(text.substr(0, head.size()), head);
  double low = 0, high = 0;
  ASSERT_EQ(std::sscanf(text.c_str() + head.size(), "%lf %lf", &low, &high), 2);
  EXPECT_NEAR(low, 30.06, 0.005);
  EXPECT_NEAR(high, 95.44, 0.005);
}

// The probe's V of the first layer: (0.5 + 0.25) / 2; the cell of the same label held 250 of 1000 bytes. K, other
// layers, single heads and techniques without a size are not drawn.
TEST_F(FigureTest, AProbesErrorStandsOverTheSizeOfTheSameLabel) {
  auto store = ResultStore::open(path_);
  for (const std::string key : {"probed", "answered", "alone"}) {
    auto cell = make_cell(key, "kivi", "task");
    cell.kind = key == "answered" ? RunKind::eval : RunKind::probe;
    cell.lossy = true;
    cell.label = key == "alone" ? "low rank, r 4" : "quantization, 2 bits";
    store.put_cell(cell);
  }
  for (const int64_t sample : {0, 1}) {
    store.put_sample(make_sample("answered", sample));
    const std::vector<ProbeRow> rows{{"rel_fro", 0, -1, "v", -1, sample == 0 ? 0.5 : 0.25},
                                     {"rel_fro", 0, -1, "k", -1, 9},
                                     {"rel_fro", 0, 0, "v", -1, 8},
                                     {"rel_fro", 1, -1, "v", -1, 7},
                                     {"abs_fro", 0, -1, "v", -1, 6}};
    store.put_probe("probed", sample, rows);
    store.put_probe("alone", sample, rows);
  }
  EXPECT_EQ(dat_of("gear:2a"),
            "# index 0, panel '', series 'quantization': x label y low high\n25 \"25.0\" 0.375 ? ?\n");
}

// Mean over prompts and layers: K (1 + 2 + 3 + 6) / 4, V half of it.
TEST_F(FigureTest, AnErrorByBitsIsAProbesMean) {
  auto store = ResultStore::open(path_);
  auto cell = make_cell("a", "rtn", "task");
  cell.kind = RunKind::probe;
  cell.options_json = R"({"bits":4})";
  cell.label = "matrix, 4 bits";
  store.put_cell(cell);
  for (const auto& [sample, first, second] : {std::tuple{0, 1.0, 2.0}, {1, 3.0, 6.0}}) {
    store.put_probe("a", sample,
                    {{"rel_fro", 0, -1, "k", -1, first},
                     {"rel_fro", 1, -1, "k", -1, second},
                     {"rel_fro", 0, -1, "v", -1, first / 2},
                     {"rel_fro", 1, -1, "v", -1, second / 2},
                     {"rel_fro", 0, 0, "k", -1, 99}});
  }
  for (const std::string name : {"decoquant:4a", "decoquant:4b"}) {
    EXPECT_EQ(dat_of(name),
              "# index 0, panel 'K', series 'matrix': x label y low high\n4 \"4\" 3 ? ?\n\n\n"
              "# index 1, panel 'V', series 'matrix': x label y low high\n4 \"4\" 1.5 ? ?\n");
  }
}

// A lossy cache as large as at 16 bits: 1000 of 1000 bytes, where the other cell's are 250.
TEST_F(FigureTest, ASuspectCellStandsInNoFigure) {
  auto store = ResultStore::open(path_);
  for (const std::string key : {"a", "b"}) {
    auto cell = make_cell(key, "kivi", "task");
    cell.lossy = true;
    cell.label = key == "a" ? "honest" : "swollen";
    store.put_cell(cell);
    auto sample = make_sample(key, 0);
    if (key == "b") sample.kv_bytes = 1000;
    store.put_sample(sample);
  }
  for (const std::string name : {"gear:1c", "gear:2c", "gear:4c", "gear:6"}) {
    const auto text = dat_of(name);
    EXPECT_NE(text.find("honest"), std::string::npos) << name;
    EXPECT_EQ(text.find("swollen"), std::string::npos) << name;
    EXPECT_EQ(notes_, std::vector<std::string>{
                          "left out as suspect: swollen on task: the cache is not smaller than at 16 bits"});
    EXPECT_NE(dat_of(name, true).find("swollen"), std::string::npos) << name;
  }
}

TEST_F(FigureTest, NothingInATextIsRunOrDrawnAsMarkup) {
  FigureData points = data("bars", "SELECT 'it''s `touch x` {/a} 5 %' AS x, 1 AS y");
  const auto script = write_gnuplot(layout("bars"), points, "a.dat", "a.svg", "svg");
  EXPECT_NE(script.find("'it''s `touch x` {/a} 5 %%' 1"), std::string::npos);  // in single quotes, its own doubled
  EXPECT_NE(script.find("set terminal svg noenhanced"), std::string::npos);
}

TEST_F(FigureTest, LogarithmicAxesEndJustBeyondTheirPoints) {
  auto look = layout("lines");
  look.x.is_log = look.y.is_log = true;
  const auto points = data("lines", "SELECT column1 AS x, column2 AS y FROM (VALUES (100, 2), (10000, 2), (500, 0))");
  const auto script = write_gnuplot(look, points, "a.dat", "a.svg", "svg");
  EXPECT_NE(script.find("set xrange [83.1764:12022.6]"), std::string::npos) << script;  // 4 % of two powers of ten
  EXPECT_NE(script.find("set yrange [1.90476:2.1]"), std::string::npos) << script;      // 5 % of one value
}

TEST_F(FigureTest, ALogarithmicAxisWithOnePowerOfTenNamesTwosAndFives) {
  auto look = layout("lines");
  look.y.is_log = true;
  const auto tics_of = [&](const std::string& least, const std::string& most) {
    const auto points = data("lines", concat("SELECT 1 AS x, column1 AS y FROM (VALUES (", least, "), (", most, "))"));
    const auto script = write_gnuplot(look, points, "a.dat", "a.svg", "svg");
    const auto at = script.find("set ytics ");
    return script.substr(at, script.find('\n', at) - at);
  };
  EXPECT_EQ(tics_of("13", "700"), "set ytics nomirror (20, 50, 100, 200, 500)");
  EXPECT_EQ(tics_of("0.03", "0.04"), "set ytics nomirror autofreq");
  EXPECT_EQ(tics_of("3", "120"), "set ytics nomirror autofreq");
}

TEST(PointLabels, CoverNeitherEachOtherNorAPoint) {
  const std::vector<NamedPoint> points = {{100, 100, 60}, {104, 101, 60}, {190, 130, 60}, {100, 190, 60}, {10, 12, 60}};
  const auto boxes = place_labels(points, 12, {0, 0, 200, 200});
  ASSERT_EQ(boxes.size(), points.size());
  const auto overlap = [](const LabelBox& a, const LabelBox& b) {
    return std::min(a.right, b.right) > std::max(a.left, b.left) &&
           std::min(a.top, b.top) > std::max(a.bottom, b.bottom);
  };
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_NEAR(boxes[i].right - boxes[i].left, 60, 1e-9);
    EXPECT_TRUE(boxes[i].left >= 0 && boxes[i].right <= 200 && boxes[i].bottom >= 0 && boxes[i].top <= 200) << i;
    for (size_t j = 0; j < boxes.size(); ++j) {
      EXPECT_FALSE(j != i && overlap(boxes[i], boxes[j])) << i << " " << j;
      EXPECT_FALSE(overlap(boxes[i], {points[j].x - 3, points[j].y - 3, points[j].x + 3, points[j].y + 3}))
          << i << " " << j;
    }
  }
}

TEST(PointLabels, CoverNothingThatIsThereAlready) {
  const std::vector<NamedPoint> points = {{100, 100, 60, 80, 120}};
  const LabelBox to_the_right{101, 90, 200, 110};
  const auto box = place_labels(points, 12, {0, 0, 200, 200}, {to_the_right}).front();
  EXPECT_LE(box.right, 100);
  EXPECT_EQ(n_points_in({90, 119, 110, 140}, points), 1u) << "the end of the interval";
  EXPECT_EQ(n_points_in({90, 121, 110, 140}, points), 0u);
}

TEST(PointLabels, AreCrowdedWhereOneCoversAnotherOrLeaves) {
  const LabelBox inside{0, 0, 200, 100};
  EXPECT_FALSE(are_crowded(std::vector<LabelBox>{{10, 10, 60, 22}, {10, 30, 60, 42}}, inside));
  EXPECT_TRUE(are_crowded(std::vector<LabelBox>{{10, 10, 60, 22}, {30, 14, 80, 26}}, inside));
  EXPECT_TRUE(are_crowded(std::vector<LabelBox>{{180, 10, 230, 22}}, inside));
}

// By hand: (20, 0.3) and (30, 0.1) are on the front, (25, 0.5) and (30, 0.2) are not; full precision has no logarithm.
TEST_F(FigureTest, PointsAreNamedAndTheFrontAndBoundsDrawn) {
  std::ofstream(folder_ / "layout.yaml")
      << "title: t\nkind: scatter\nx: {label: x, min: 0}\ny: {label: y, log: true}\nnames_points: true\nfront: low\n"
         "bounds: {breaks above: 0.2, far: 9}\n";
  const auto layout = load_figure_layout(folder_ / "layout.yaml");
  auto store = ResultStore::open(path_);
  make_entries(store.database(), {"trial"}, false);
  const auto data =
      read_figure_data(store.database(), "f",
                       "SELECT 20.0 AS x, 0.3 AS y, 'a' AS series FROM (SELECT count(*) FROM entry) UNION ALL SELECT "
                       "25, 0.5, 'b' UNION ALL"
                       " SELECT 30, 0.1, 'c' UNION ALL SELECT 30, 0.2, 'd' UNION ALL SELECT 100, 0, 'full'",
                       layout);
  EXPECT_EQ(data.series, (std::vector<std::string>{"a", "b", "c", "d"}));
  const auto script = write_gnuplot(layout, data, "f.dat", "f.svg", "svg");
  EXPECT_THAT(script, testing::HasSubstr("set arrow from first 20,0.3 to first 30,0.3 back nohead"));
  EXPECT_THAT(script, testing::HasSubstr("set arrow from first 30,0.3 to first 30,0.1 back nohead"));
  EXPECT_THAT(script, testing::HasSubstr("graph 0,first 0.2 to graph 1,first 0.2 nohead"));
  EXPECT_THAT(script, testing::HasSubstr("set label 'breaks above' at graph 0.01,")) << "no point is near the left end";
  EXPECT_THAT(script, testing::Not(testing::HasSubstr("'far'")));
  EXPECT_THAT(script, testing::Not(testing::HasSubstr("keyentry"))) << "names stand at the points";
  for (const char* name : {"set label 'a' at screen", "set label 'd' at screen"}) {
    EXPECT_THAT(script, testing::HasSubstr(name));
  }
}

TEST_F(FigureTest, WithoutGnuplotScriptAndDataAreKept) {
  const auto points = data("lines", "SELECT 1 AS x, 2 AS y");
  const std::string old_path = std::getenv("PATH");
  setenv("PATH", folder_.path().c_str(), 1);
  const auto picture = folder_ / "new/a.svg";
  EXPECT_EQ(message_of([&] { draw_figure(layout("lines"), points, picture); }),
            concat("gnuplot is missing (Debian package gnuplot-nox), so '", picture.string(), "' is not drawn; '",
                   (folder_ / "new/a.gp").string(), "' and '", (folder_ / "new/a.dat").string(), "' are written"));
  setenv("PATH", old_path.c_str(), 1);
  EXPECT_EQ(read_file(folder_ / "new/a.dat"), "# index 0, panel '', series '': x label y low high\n1 \"1\" 2 ? ?\n");
  EXPECT_TRUE(fs::exists(folder_ / "new/a.gp"));
  EXPECT_EQ(message_of([&] { draw_figure(layout("lines"), points, folder_ / "a.jpg"); }),
            concat("'", (folder_ / "a.jpg").string(), "': ends in '.jpg', expected .svg, .pdf or .png"));
}

}  // namespace
}  // namespace kvc
