#include "analysis/compare.h"
#include "analysis/query.h"
#include "analysis/summary.h"
#include "render/terminal.h"
#include "stats/clustered.h"
#include "store_fixture.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using SummaryTest = OpenStoreTest;
using QueryTest = OpenStoreTest;

TEST_F(QueryTest, StatisticsAreSqlFunctions) {
  auto db = Database::open(path_, Database::Mode::kReadWrite, 0);
  EXPECT_EQ(db.text("SELECT round(wilson_low(5, 10), 4) || ' ' || round(wilson_high(5, 10), 4)"), "0.2366 0.7634");
  EXPECT_EQ(db.text("SELECT median(column1) FROM (VALUES (9), (1), (NULL), (4))"), "4.0");
  EXPECT_EQ(db.text("SELECT score_low(column1) = wilson_low(1, 3) AND score_high(column1) = wilson_high(1, 3)"
                    " FROM (VALUES (1), (0), (NULL), (0))"),
            "1");
  EXPECT_EQ(db.text("SELECT score_low(column1) || ' ' || score_high(column1) FROM (VALUES (0.5), (0.5))"), "0.5 0.5");
  EXPECT_EQ(db.text("SELECT median(column1) FROM (VALUES (9), (1), (4), (5))"), "4.5");
  EXPECT_EQ(db.text("SELECT quartile(column1, 1) || ' ' || quartile(column1, 3) FROM (VALUES (1), (NULL), (2), (3))"),
            "1.5 2.5");
  const std::string one_to_four = "x'0000803F000000400000404000008040'";  // 32-bit floats
  EXPECT_EQ(db.text("SELECT float_quantile(0.5, " + one_to_four + ", -3, 9)"), "2.5");
  EXPECT_EQ(db.text("SELECT float_quantile(1, column1, column2, 4) FROM (VALUES (" + one_to_four +
                    ", 3), (NULL, 0), (" + one_to_four + ", 1))"),
            "4.0");
  EXPECT_EQ(db.text("SELECT float_quantile(0, " + one_to_four + ", 1, 3)"), "2.0");
  EXPECT_EQ(db.text("SELECT float_quantile(0, " + one_to_four + ", 2, 2) IS NULL"), "1");
  const std::string five = "(VALUES (1, 1), (0, 2), (1, 3), (1, 4), (0, 5))";
  const auto low =
      interval_of_texts(std::vector<Cluster>{{{1}, {2}}, {{0}, {2}}, {{1}, {2}}, {{1}, {2}}, {{0}, {2}}})->low;
  auto select = db.prepare("SELECT clustered_low(column1, 2, column2) FROM " + five);
  ASSERT_TRUE(select.step());
  EXPECT_EQ(select.real(0), low);
  EXPECT_EQ(db.text("SELECT clustered_low(column1, 2, min(column2, 4)) IS NULL FROM " + five), "1");  // 4 windows
  for (const char* none : {"median(column1)", "quartile(column1, 2)", "score_low(column1)", "wilson_low(column1, 3)",
                           "wilson_high(1, column1)", "clustered_high(column1, 1, 1)",
                           "float_quantile(0.5, column1, 0, 1)", "ends_in_loop(column1)"}) {
    EXPECT_EQ(db.text(concat("SELECT ifnull(", none, ", 'none') FROM (VALUES (NULL))")), "none") << none;
  }
  EXPECT_EQ(message_of([&] { db.text("SELECT quartile(1, 4)"); }),
            concat("results database '", path_.string(), "': quartile(x, n): n is not 1, 2 or 3"));
  EXPECT_NE(message_of([&] { db.text("SELECT float_quantile(2, x'00000000', 0, 1)"); }).find("p is not from 0 to 1"),
            std::string::npos);
}

TEST_F(QueryTest, ReadsAndRefusesToWrite) {
  const auto table = run_query(store_.database(), "SELECT 1 AS n, 0.1 AS x, 'a|b' AS t, NULL AS none -- a comment");
  EXPECT_EQ(write_markdown(table),
            "|   n |   x | t    | none |\n"
            "| --: | --: | ---- | ---- |\n"
            "|   1 | 0.1 | a\\|b |      |\n");
  EXPECT_EQ(write_csv(table), "n,x,t,none\r\n1,0.1,a|b,\r\n");
  EXPECT_EQ(message_of([&] { run_query(store_.database(), "DELETE FROM cell"); }),
            "a query must only read; this statement would write");
  EXPECT_EQ(message_of([&] { run_query(store_.database(), "SELECT 1; DELETE FROM cell"); }),
            "one SQL statement at a time; a second one starts after the first ';'");
  EXPECT_EQ(message_of([&] { run_query(store_.database(), "SELEC 1"); }),
            concat("results database '", path_.string(), "': near \"SELEC\": syntax error"));
  EXPECT_EQ(message_of([&] { run_query(store_.database(), " -- nothing"); }), "the SQL text is empty");
  EXPECT_EQ(message_of([&] { table_sql("sumary"); }),
            "unknown table 'sumary' (did you mean 'summary'?); known: " + join(table_names()));
}

TEST(Table, FitsATerminalAndSaysWhatIsLeftOut) {
  constexpr auto kRight = TableColumn::Align::kRight;
  using Rank = TableColumn::Rank;
  const Table table{"t",
                    {{"name"},
                     {"detail", kRight, "", -1, Rank::kDetail},
                     {"x", kRight, "%", 1},
                     {"far away", kRight, "", -1, Rank::kMain}},
                    {{"a\x1b[2J|é", int64_t{1}, 1.0 / 3, int64_t{7}}, {std::string(60, 'w'), int64_t{2}, 20.0, 8.5}},
                    {"note"}};
  const auto w = std::string(42, 'w') + "…";  // what the figures leave of the width
  EXPECT_EQ(write_terminal(table, {60, false}), "t\n\nname" + std::string(41, ' ') + "x [%]  far away\na [2J|é" +
                                                    std::string(40, ' ') + "0.3         7\n" + w +
                                                    "   20.0       8.5\n\n--wide also shows: detail\n- note\n");
  const auto narrow = write_terminal(table, {28, false});
  EXPECT_NE(narrow.find("\n" + std::string(17, 'w') + "…       8.5\n"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("\n--wide also shows: detail, x\n"), std::string::npos) << narrow;
}

TEST(Table, HasColourOnlyWhereItIsWanted) {
  Table table{"", {{"a"}, {"b"}}, {{"x", "y"}}, {}};
  table.tones[{0, 1}] = TableTone::kBad;
  EXPECT_EQ(write_terminal(table, {80, true}), "\x1b[1ma\x1b[0m  \x1b[1mb\x1b[0m\nx  \x1b[31my\x1b[0m\n");
  EXPECT_EQ(write_terminal(table, {80, false}), "a  b\nx  y\n");
}

TEST(Table, PlotsPointsAsLettersWithALegend) {
  EXPECT_EQ(text_plot({{"alone", 1, 2}}, "x", "y", 80), "");
  const auto plot = text_plot({{"low", 10, 50}, {"full", 100, 90}, {"too", 100, 90}}, "bytes", "accuracy", 50);
  EXPECT_NE(plot.find("accuracy\n  90.0 |" + std::string(40, ' ') + "*\n"), std::string::npos) << plot;
  EXPECT_NE(plot.find("  50.0 |    A\n"), std::string::npos) << plot;
  EXPECT_NE(plot.find("B  90.0 at 100.0  full\n"), std::string::npos) << plot;
  EXPECT_NE(plot.find("*  several overlap\n"), std::string::npos) << plot;
}

TEST(Table, IsWrittenAsCsvAndJson) {
  const Table table{
      "t", {{"name"}, {"x", TableColumn::Align::kRight, "%", 1}}, {{"a,\"b\"\nc", 1.0 / 3}, {"é", 2.0}}, {"note"}};
  EXPECT_EQ(write_csv(table), "name,x [%]\r\n\"a,\"\"b\"\"\nc\",0.3333333333333333\r\né,2\r\n");
  EXPECT_EQ(write_json(table),
            "{\n  \"title\": \"t\",\n  \"columns\": [\n    \"name\",\n    \"x [%]\"\n  ],\n  \"rows\": [\n    {\n"
            "      \"name\": \"a,\\\"b\\\"\\nc\",\n      \"x [%]\": 0.3333333333333333\n    },\n    {\n"
            "      \"name\": \"é\",\n      \"x [%]\": 2.0\n    }\n  ],\n  \"notes\": [\n    \"note\"\n  ]\n}\n");
  EXPECT_EQ(write_markdown(table),
            "**t**\n\n"
            "| name    | x [%] |\n"
            "| ------- | ----: |\n"
            "| a,\"b\" c |   0.3 |\n"
            "| é       |   2.0 |\n\n"
            "- note\n");
}

// Two samples a cell. full: 16 bits, both right on both tasks. low: 250 of 1000 bytes; one of two right on t/a, t/b is
// half done and that half failed. broken encodes nothing.
void fill(ResultStore& store) {
  for (const std::string task : {"t/a", "t/b"}) {
    auto cell = make_cell("full " + task, "full", task);
    store.put_cell(cell);
    for (int64_t i : {0, 1}) {
      auto sample = make_sample(cell.key, i);
      sample.kv_bytes = 1000;
      sample.paper_bytes = 1000;
      sample.k_error = sample.v_error = 0;
      store.put_sample(sample);
    }
  }
  auto low = make_cell("low t/a", "low", "t/a");
  low.options_json = R"({"bits":2,"group":32})";
  low.bits = 2.5;
  low.formula = "GEAR";
  low.lossy = true;
  store.put_cell(low);
  store.put_sample(make_sample(low.key, 0, 1));
  store.put_sample(make_sample(low.key, 1, 0));
  low.key = "low t/b";
  low.task = "t/b";
  low.generation_json = R"({"max_new_tokens":9})";  // the task's own: the row stays one
  store.put_cell(low);
  store.put_sample(failed_sample(low.key, 0));
  auto broken = make_cell("broken", "broken", "t/a");
  broken.lossy = true;
  broken.experiment = "other";
  store.put_cell(broken);
  auto sample = make_sample("broken", 0);
  sample.n_encoded_tokens = 0;
  store.put_sample(sample);
}

// Wilson by hand, z^2 = 3.8415: 2 of 2: low 2/5.8415 = 34.2; 1 of 2: centre 50, half width 40.5. Speed: 20 tokens in
// 0.5 + 1 + 0.5 s.
const char* const kNote =
    "- extractors disagree on the same answers: first 100.0 %, second 0.0 % (full on t/a) and for 1 more; "
    "first 100.0 %, second 0.0 % (full on t/b)\n"
    "- answer: mean generated length over all tasks; at limit: generations cut by the limit of new tokens or the "
    "context; in a loop: generations whose last tokens repeat three times or more\n"
    "- accuracy with Wilson's 95 % interval; KV size: measured, relative to the same tokens at 16 bits, at the "
    "samples' own lengths and for synthetic prompts; bits/value: bits per compressed value, excluding the uncompressed "
    "recent window, at the longest prompt; speed: decoded tokens per second, without prefill\n";

TEST_F(SummaryTest, PivotsTasksAndLeavesSuspectsOut) {
  fill(store_);
  const std::string expected = R"(**Scores, sizes and speed, tiny**

| compressor | options         | bits | bits/value | compressed [%] | KV size [%] | published formula [%] | formula |             t/a [%] |             t/b [%] |   n | answer [tokens] | at limit [%] | in a loop [%] | peak KV [MiB] | speed [tokens/s] | failed |
| ---------- | --------------- | ---: | ---------: | -------------: | ----------: | --------------------: | ------- | ------------------: | ------------------: | --: | --------------: | -----------: | ------------: | ------------: | ---------------: | -----: |
| full       |                 |   16 |            |                |       100.0 |                 100.0 |         | 100.0 [34.2, 100.0] | 100.0 [34.2, 100.0] |   2 |            20.0 |          0.0 |           0.0 |          1.00 |             10.0 |      0 |
| low        | bits=2 group=32 |  2.5 |            |                |        25.0 |                  20.0 | GEAR    |    50.0 [9.5, 90.5] |                     | 2/0 |            20.0 |          0.0 |           0.0 |          1.00 |             10.0 |      1 |

- left out as suspect: broken on t/a: no token was compressed
- not finished: low bits=2 group=32 on t/b: 1 of 2 missing
)";
  EXPECT_EQ(write_markdown(summary_table(store_.database())), expected + kNote);
}

// Per cell 1000 bytes at 16 bits are 500 numbers. Sizes of made prompts are one compressor's: any cell of it has them.
TEST_F(SummaryTest, SizesStandByLengthAndBitsAreOfTheLongest) {
  for (const std::string task : {"t/a", "t/b"}) {
    store_.put_cell(make_cell("low " + task, "low", task));
    auto sample = make_sample("low " + task, 0);
    sample.n_encoded_numbers = 200;
    sample.recent_bytes = 150;
    store_.put_sample(sample);
  }
  const auto shown = [&](const std::string& column) {
    const auto table = summary_table(store_.database());
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == column) return std::get<double>(table.rows.at(0)[i]);
    }
    return -1.0;
  };
  EXPECT_EQ(shown("bits/value"), 8. * (250 - 150) / 200);  // the samples' own
  EXPECT_EQ(shown("compressed"), 40);
  CacheSize size{1024, "", 300, 1000, 50, 0, 500};
  store_.put_sizes("low t/b", {size, {32768, "it takes too long", {}, {}, {}, {}, {}}});
  EXPECT_EQ(shown("at 1K"), 30);
  EXPECT_EQ(shown("at 32K"), -1);
  EXPECT_EQ(shown("bits/value"), 8. * (300 - 50) / 500);
  EXPECT_EQ(shown("compressed"), 40);
  EXPECT_EQ(store_.sizes_of("low t/b"), (std::set<int64_t>{1024, 32768}));
  size.kv_bytes = 1;
  store_.put_sizes("low t/b", {size});  // it is there
  EXPECT_EQ(shown("at 1K"), 30);
}

// A task that is added later brings cells of compressors whose caches were filled already.
TEST_F(SummaryTest, ASizeIsMeasuredOnceForAModelAPluginAndItsOptions) {
  auto other_options = make_cell("options", "lossy", "b"), other_model = make_cell("model", "lossy", "b");
  other_options.options_json = R"({"bits":2})", other_model.model_json = R"({"x":1})";
  for (const auto& cell : {make_cell("first", "lossy", "a"), make_cell("later", "lossy", "b"), other_options,
                           other_model, make_cell("plugin", "another", "b")}) {
    store_.put_cell(cell);
  }
  store_.put_sizes("first", {{1024, "", 300, 1000, 50, 0, 500}, {4096, "it takes too long", {}, {}, {}, {}, {}}});
  EXPECT_TRUE(store_.has_size("later", 1024) && store_.has_size("later", 4096));
  EXPECT_FALSE(store_.has_size("later", 2048));
  EXPECT_EQ(store_.database().integer("SELECT kv_bytes + n_encoded_numbers FROM cell_size WHERE cell_key = 'later'"),
            800);
  for (const char* key : {"options", "model", "plugin"}) EXPECT_FALSE(store_.has_size(key, 1024)) << key;
}

// 8 + 96 + 100 tokens over 3, of which two were cut; what is scored, or failed, is no answer.
TEST_F(SummaryTest, AnswersHaveALengthAndAShareAtTheLimit) {
  store_.put_cell(make_cell("a", "low", "t/a"));
  const std::pair<const char*, int64_t> answers[] = {{"eos", 8}, {"limit", 96}, {"context", 100}};
  int64_t sample = 0;
  for (const auto& [reason, n] : answers) {
    auto record = make_sample("a", sample++);
    record.stop_reason = reason;
    record.n_new_tokens = n;
    store_.put_sample(record);
  }
  store_.put_sample(failed_sample("a", sample));
  auto read = make_sample("b", 0);
  read.stop_reason = "scored";
  read.n_new_tokens = 4000;
  store_.put_cell(make_cell("b", "low", "t/b"));
  store_.put_sample(read);
  const auto value = [&](const std::string& column) -> TableCell {
    const auto table = summary_table(store_.database());
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == column) return table.rows.at(0)[i];
    }
    return "no column";
  };
  EXPECT_EQ(value("answer"), TableCell(68.0));
  EXPECT_EQ(value("at limit"), TableCell(100. * 2 / 3));
  EXPECT_EQ(value("in a loop"), TableCell(0.0));
  std::string twos = "[2";
  for (int i = 0; i < 40; ++i) twos += ",2";
  store_.database().execute("UPDATE sample SET token_ids_json = '" + twos + "]' WHERE stop_reason = 'context'");
  EXPECT_EQ(value("in a loop"), TableCell(100. / 3));
  store_.database().execute("DELETE FROM sample WHERE cell_key = 'a'");
  EXPECT_EQ(value("answer"), TableCell("no column"));
}

// One cell of 16 bits, n answers, each ended so; its two extractors say the same.
void put_answers(ResultStore& store, const std::string& task, const std::string& generation,
                 const std::vector<std::string>& reasons, const std::string& plugin = "full", bool lossy = false) {
  auto cell = make_cell(concat(plugin, " ", task), plugin, task);
  cell.generation_json = generation;
  cell.lossy = lossy;
  cell.n_samples = static_cast<int64_t>(reasons.size());
  store.put_cell(cell);
  for (size_t i = 0; i < reasons.size(); ++i) {
    auto sample = make_sample(cell.key, static_cast<int64_t>(i));
    sample.stop_reason = reasons[i];
    sample.scores = {{"first", "4", 1}, {"second", "4", 1}};
    if (!lossy) sample.k_error = sample.v_error = 0;
    store.put_sample(sample);
  }
}

std::vector<std::string> notes_of(ResultStore& store) {
  auto notes = summary_table(store.database()).notes;
  std::erase_if(notes, [](const auto& note) { return note.starts_with("answer: ") || note.starts_with("accuracy "); });
  return notes;
}

TEST_F(SummaryTest, ANoteSaysThatTheBaselinesAnswersRanToTheirLimit) {
  const std::string with_stop = R"({"max_new_tokens":256,"stop":["\n\n"]})";
  put_answers(store_, "gsm8k", with_stop, {"limit", "limit", "limit"});
  put_answers(store_, "gsm8k", with_stop, {"stop", "stop", "stop"}, "low", true);  // not what it is measured by
  EXPECT_EQ(notes_of(store_), std::vector<std::string>{
                                  "the stop string never occurred: 3 of 3 answers ran to 256 tokens (full on gsm8k)"});
  put_answers(store_, "half", with_stop, {"limit", "eos"});                       // no more than half
  put_answers(store_, "one", R"({"max_new_tokens":1,"stop":["x"]})", {"limit"});  // all answers are of one token
  put_answers(store_, "scored", with_stop, {"scored", "scored"});                 // by likelihood
  EXPECT_EQ(notes_of(store_).size(), 1u);
  put_answers(store_, "aqua", R"({"max_new_tokens":196,"stop":[]})", {"limit", "context"});
  put_answers(store_, "math", with_stop, {"limit", "limit", "stop"});
  put_answers(store_, "more", "no JSON", {"context"});
  EXPECT_EQ(notes_of(store_),
            (std::vector<std::string>{
                "most answers did not end by themselves: 2 of 3 answers ran to 256 tokens (full on math)",
                "no end token occurred: 2 of 2 answers ran to 196 tokens or the end of the context (full on aqua); "
                "1 of 1 answers ran to the end of the context (full on more)",
                "the stop string never occurred: 3 of 3 answers ran to 256 tokens (full on gsm8k)"}));
}

// Of 20 answers: 10 points are no more than 10; buckets and graded scores are no extractors of the same answers.
TEST_F(SummaryTest, ANoteSaysThatExtractorsDisagree) {
  const auto put = [&](const std::string& task, int64_t n_first, int64_t n_second, double other, const char* reason) {
    auto cell = make_cell(task, "low", task);
    cell.n_samples = 20;
    store_.put_cell(cell);
    for (int64_t i = 0; i < 20; ++i) {
      auto sample = make_sample(task, i);
      sample.stop_reason = reason;
      sample.scores = {
          {"strict", "4", i < n_first ? 1. : 0.}, {"last", "4", i < n_second ? 1. : 0.}, {"f1", "4", other}};
      if (i < 3) sample.scores.push_back({"strict/long", "4", 0});
      store_.put_sample(sample);
    }
  };
  put("alike", 10, 12, 0.9, "stop");
  put("choices", 0, 20, 0.9, "scored");
  EXPECT_EQ(notes_of(store_), std::vector<std::string>());
  put("apart", 10, 13, 0.9, "stop");
  EXPECT_EQ(
      notes_of(store_),
      std::vector<std::string>{"extractors disagree on the same answers: strict 50.0 %, last 65.0 % (low on apart)"});
}

TEST_F(SummaryTest, ShowsSuspectsWhenAskedAndOneExperiment) {
  fill(store_);
  const auto table = summary_table(store_.database(), {.experiment = "other", .with_suspects = true});
  EXPECT_EQ(table.title, "other, tiny");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(std::get<std::string>(table.rows[0][0]), "broken");
  EXPECT_EQ(table.notes[0], "suspect: broken on t/a: no token was compressed");
  EXPECT_EQ(message_of([&] { summary_table(store_.database(), {.experiment = "othr"}); }),
            concat("results database '", path_.string(),
                   "': unknown experiment 'othr' (did you mean 'other'?); known: other, trial"));
}

TEST_F(SummaryTest, CellsThatDifferInGenerationAreRowsThatSayInWhat) {
  for (const std::string seed : {"1", "2"}) {
    auto cell = make_cell("c" + seed, "low", "t/a");
    cell.generation_json = R"({"dtype":"fp32","seed":)" + seed + "}";
    store_.put_cell(cell);
    store_.put_sample(make_sample(cell.key, 0));
  }
  const auto rows = summary_table(store_.database()).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(std::get<std::string>(rows[0][1]), "(seed=1)");
  EXPECT_EQ(std::get<std::string>(rows[1][1]), "(seed=2)");
}

// needle's prompt is no user's turn and has no chat frame, qasper's has the experiment's: two cells of one row. Without
// frames at all qasper makes a row of its own, and needle, which is the same cell, stands in both.
TEST_F(SummaryTest, WhatATaskDecidesMakesNoRow) {
  const auto put = [&](const std::string& plugin, const std::string& task, const std::string& chat) {
    auto cell = make_cell(concat(plugin, task, chat), plugin, task);
    cell.task_json = concat(R"({"chat":")", task == "qasper" ? "turn" : "never", R"("})");
    cell.generation_json =
        concat(R"({"seed":0,"max_new_tokens":9,"chat_template":")", chat, R"(")",
               chat == "none" ? "" : R"(,"chat_frame":"<\n{prompt}","add_special_tokens":false)", "}");
    cell.n_samples = 1;
    store_.put_cell(cell);
    store_.put_sample(make_sample(cell.key, 0));
  };
  const auto rows = [&] {
    std::string text;
    const auto table = summary_table(store_.database());
    for (const auto& row : table.rows) {
      for (const size_t column : {0, 1, 8, 9}) text += concat(std::get<std::string>(row.at(column)), "|");
      text += "\n";
    }
    return text + table.notes.front();
  };
  for (const char* plugin : {"full", "other"}) put(plugin, "needle", "none"), put(plugin, "qasper", "chatml");
  const std::string note = "chat frame chatml; none, as their prompts are no user's turn: needle";
  EXPECT_EQ(rows(),
            "full||100.0 [20.7, 100.0]|100.0 [20.7, 100.0]|\nother||100.0 [20.7, 100.0]|100.0 [20.7, 100.0]|\n" + note);
  put("full", "qasper", "none");
  EXPECT_EQ(rows(),
            "full|(chat_template=chatml)|100.0 [20.7, 100.0]|100.0 [20.7, 100.0]|\n"
            "full|(chat_template=none)|100.0 [20.7, 100.0]|100.0 [20.7, 100.0]|\n"
            "other||100.0 [20.7, 100.0]|100.0 [20.7, 100.0]|\n" +
                note);

  auto& db = store_.database();
  CompareOptions options;
  options.a = "full chat_template=chatml", options.b = "other";
  EXPECT_EQ(compare_groups(db, db, options).rows.size(), 3) << "needle, qasper and both";
}

TEST_F(SummaryTest, GradedScoresHaveABootstrapIntervalAndSaySo) {
  store_.put_cell(make_cell("c", "low", "t/f1"));
  for (int64_t i : {0, 1}) store_.put_sample(make_sample("c", i, 0.5));  // equal scores: no width
  const auto table = summary_table(store_.database());
  EXPECT_EQ(table.columns[8].unit, "%, bootstrap");
  EXPECT_EQ(std::get<std::string>(table.rows[0][8]), "50.0 [50.0, 50.0]");
  EXPECT_EQ(table.notes[0], "bootstrap: BCa 95 % interval (10000 draws, seed 0) where a score is neither 0 nor 1");
}

TEST_F(SummaryTest, AnEmptyDatabaseGivesAnEmptyTable) { EXPECT_TRUE(summary_table(store_.database()).rows.empty()); }

}  // namespace
}  // namespace kvc
