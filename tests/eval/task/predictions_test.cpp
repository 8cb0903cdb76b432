// Files of predictions: three forms, and what is wrong with a bad one in one line.
#include "predictions/predictions.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "predictions/score_predictions.h"
#include "support/message_of.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

class Predictions : public testing::Test {
 protected:
  std::vector<Prediction> read(const std::string& task, const std::string& text) {
    folder_.write("t.jsonl", text);
    auto file = read_predictions(load_task(find_task(test::kTasks, task)), file_);
    n_other_filters_ = file.n_other_filters;
    return std::move(file.samples);
  }

  double percent(const std::string& task, size_t extractor, const std::string& text) {
    const auto spec = load_task(find_task(test::kTasks, task));
    AnswerScorer scorer;
    return score_predictions(spec, spec.extractors.at(extractor), read(task, text), file_, scorer).percent();
  }

  std::string error(const std::string& task, const std::string& text) {
    const auto what = test::message_of([&] { percent(task, 0, text); });
    return what.starts_with(file_.string()) ? what.substr(file_.string().size()) : what;
  }

  int64_t n_other_filters_ = 0;
  test::TempFolder folder_;
  const std::filesystem::path file_ = folder_ / "t.jsonl";
};

TEST_F(Predictions, LongBenchLinesTakeTheLastLinesClasses) {
  const auto lines = read("longbench/trec", R"({"pred": "A", "answers": ["B"], "all_classes": ["A"], "length": 3}
{"pred": "B", "answers": ["B", "C"], "all_classes": ["A", "B"], "length": 3}
)");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].gold.classes, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(lines[1].gold.answers, (std::vector<std::string>{"B", "C"}));
  EXPECT_EQ(lines[1].line, 2);
}

TEST_F(Predictions, LmEvalQuestionsAreReadOnceWhateverTheirFilters) {
  const std::string text =
      R"({"doc_id": 0, "doc": {"answer": "So\n#### 18"}, "target": "18", "resps": [["It is 18."]], "filter": "strict-match"}
{"doc_id": 1, "doc": {"answer": "So\n#### 1,000"}, "target": "1,000", "resps": [["It is 1000."]], "filter": "strict-match"}
{"doc_id": 0, "doc": {"answer": "So\n#### 18"}, "target": "18", "resps": [["It is 18."]], "filter": "flexible-extract"}
)";
  const auto lines = read("gsm8k/cot8", text);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].gold.answers[0], "18");
  EXPECT_EQ(lines[1].gold.answers[0], "1,000");
  EXPECT_EQ(n_other_filters_, 1);
  EXPECT_EQ(percent("gsm8k/cot8", 0, text), 100);
}

// A line of lm-eval's samples of gsm8k.
std::string sample_line(int id, const std::string& gold, const std::string& response, const std::string& filter) {
  return concat(R"({"doc_id": )", id, R"(, "doc": {"question": "q)", gold, R"(", "answer": "#### )", gold,
                R"("}, "target": ")", gold, R"(", "resps": [["#### )", response, R"("]], "filter": ")", filter,
                "\"}\n");
}

TEST_F(Predictions, RunsInOneFileAreAllScored) {
  const auto run = [](const std::string& gold, const std::string& response, const std::string& filter) {
    return sample_line(0, gold, response, filter) + sample_line(1, gold, response, filter);
  };
  // Other documents of the same numbers: what the second run got wrong counts.
  EXPECT_EQ(percent("gsm8k/shot5", 0, run("5", "5", "strict") + run("8", "7", "strict")), 50);
  EXPECT_EQ(n_other_filters_, 0);
  // The same documents with two filters each, and in the second run another response.
  EXPECT_EQ(percent("gsm8k/shot5", 0,
                    run("5", "5", "strict") + run("5", "5", "flexible") + run("5", "6", "strict") +
                        run("5", "6", "flexible")),
            50);
  EXPECT_EQ(n_other_filters_, 4);
  // Two runs whose responses are equal, with two filters each.
  const auto both = run("5", "5", "strict") + run("5", "5", "flexible");
  EXPECT_EQ(read("gsm8k/shot5", both + both).size(), 4u);
  EXPECT_EQ(n_other_filters_, 4);
  // Another filter of another response is a sample; so is a line that repeats another with no filter named.
  EXPECT_EQ(read("gsm8k/shot5", run("5", "5", "strict") + run("5", "6", "flexible")).size(), 4u);
  const std::string unnamed = R"({"doc_id": 0, "target": "5", "resps": [["#### 5"]]})";
  EXPECT_EQ(read("gsm8k/shot5", unnamed + "\n" + unnamed + "\n").size(), 2u);
}

TEST_F(Predictions, ChoicesOfTwoRunsAreAllScored) {
  const std::string line =
      R"({"doc_id": 0, "target": "0", "filter": "none", "resps": [[["-1", "False"]], [["-2", "True"]]],)"
      R"( "arguments": {"gen_args_0": {"arg_1": " a"}, "gen_args_1": {"arg_1": " b"}}})";
  EXPECT_EQ(read("piqa/validation", line + "\n" + line + "\n").size(), 2u);
  EXPECT_EQ(n_other_filters_, 0);
}

// A server without stop strings generates on: what follows the first of them does not count.
TEST_F(Predictions, TextsAreCutAtTheTasksStopStrings) {
  const auto line = [](const std::string& generation, const std::string& gold, const std::string& more = "") {
    return R"({"generation": ")" + generation + R"(", "gold": ")" + gold + "\"" + more + "}\n";
  };
  const auto shot5 = line(R"( 9 + 9 = 18\n#### 18\n\nQuestion: A box has 7 pens.\nAnswer: 7)", "18");
  EXPECT_EQ(percent("gsm8k/shot5", 0, shot5), 100);
  EXPECT_EQ(percent("gsm8k/shot5", 1, shot5), 100);
  EXPECT_EQ(percent("gsm8k/shot5", 1, line("It is 18.<|im_end|>7", "18")), 100);
  EXPECT_EQ(percent("bbh/navigate", 0, line(R"(So the answer is Yes.\n\nQ: x\nSo the answer is No.)", "Yes")), 100);
  EXPECT_EQ(percent("passkey/digits", 0, line(R"( none\n12345)", "12345")), 0);
  const std::string classes = R"(, "options": ["A)1", "B)2", "C)3", "D)4", "E)5"])";
  for (const size_t extractor : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(percent("aqua/cot8", extractor, line(R"(no idea\n\nQuestion: x\nThe answer is B).)", "B", classes)), 0);
  }
  EXPECT_EQ(percent("aqua/cot8", 0, line(R"(The answer is A).\nQuestion: x\nThe answer is B).)", "A", classes)), 100);
}

TEST_F(Predictions, PlainGoldsAreRawOrTaken) {
  EXPECT_EQ(percent("gsm8k/cot8", 0, R"({"generation": "5", "gold": "work\n#### 5"}
{"generation": "6", "gold": "6"}
{"generation": "none", "gold": "6"}
{"generation": "7", "gold": ["6", "7"]}
)"),
            75);
}

TEST_F(Predictions, BadFilesAreRefusedInOneLine) {
  struct {
    std::string task, text, message;
  } const cases[] = {
      {"longbench/qasper", "", ":1:1: error: the file holds no predictions"},
      {"longbench/qasper", R"({"predd": "x"})",
       ":1:1: error: no field 'pred' (LongBench), 'resps' (lm-eval) or 'generation' (plain lines)"},
      {"longbench/qasper", R"({"pred": "x"})", ":1:1: error: missing field 'answers'; the line has: pred"},
      {"longbench/qasper", R"({"pred": 3, "answers": ["x"]})",
       ":1:1: error: field 'pred' is number, expected a string"},
      {"longbench/qasper", R"({"pred": "x", "answers": "x"})",
       ":1:1: error: field 'answers' is string, expected a list of strings"},
      {"longbench/qasper", R"({"pred": "x", "answers": []})",
       ":1:1: error: field 'answers' is empty, expected a list of strings"},
      {"longbench/qasper", R"({"pred": "x", "answers": ["x"]}
{"pred": "x", "answers": [null]})",
       ":2:1: error: field 'answers' holds null, expected strings, numbers or booleans"},
      {"gsm8k/cot8", R"({"generation": "x", "gold": {}})",
       ":1:1: error: field 'gold' is object, expected a string, a number, a boolean or a list of these"},
      {"longbench/qasper", "[]", ":1:1: error: the file holds no predictions"},
      {"longbench/qasper", "[[1]]", ":1:1: error: a line is array, expected an object"},
      {"longbench/qasper",
       R"({"pred": "x", "answers": ["x"]})"
       "\n{\"pred\"",
       ":2:8: error: not JSON: syntax error while parsing object separator - unexpected end of input; expected ':'"},
      {"longbench/trec", R"({"pred": "x", "answers": ["x"], "all_classes": null})",
       ":1:1: error: extractor 'first_line' compares by 'classification', and the line has no classes"},
      {"longbench/passage_retrieval_en", R"({"pred": "3", "answers": ["Section 3"]})",
       ":1:1: error: extractor 'whole' finds no answer in the gold 'Section 3'"},
      {"gsm8k/cot8", R"({"generation": "3", "gold": "three"})",
       ":1:1: error: extractor 'gear' finds no answer in the gold 'three'"},
      {"gsm8k/cot8", R"({"resps": [["a", "b"]], "doc_id": 0, "target": "3"})",
       R"(:1:1: error: field 'resps' is '[["a","b"]]', expected one response, [["text"]])"},
      {"gsm8k/cot8", R"({"resps": [["a"]], "target": "3"})",
       ":1:1: error: missing field 'doc_id'; the line has: resps, target"},
  };
  for (const auto& c : cases) EXPECT_EQ(error(c.task, c.text), c.message);
}

// lm-eval's generate_until casts a gold to the response's type, which is str.
TEST_F(Predictions, NumbersAsGoldsAreTheirText) {
  EXPECT_EQ(percent("gsm8k/cot8", 0, R"({"doc_id": 0, "target": 42, "resps": [["The answer is 42."]]}
{"doc_id": 1, "doc": {"answer": 7}, "target": 7, "resps": [["The answer is 7."]]}
{"doc_id": 2, "target": [41, 42], "resps": [["The answer is 42."]]}
{"doc_id": 3, "target": 42, "resps": [["The answer is 43."]]}
)"),
            75);
  EXPECT_EQ(read("gsm8k/cot8", R"({"generation": "x", "gold": 3.5})")[0].gold.answers[0], "3.5");
  EXPECT_EQ(read("gsm8k/cot8", R"({"generation": "x", "gold": true})")[0].gold.answers[0], "True");
}

TEST_F(Predictions, NullResponsesAreScoredZeroAndTold) {
  const auto told = [&](const std::string& task, const std::string& text, double expected) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(percent(task, 0, text), expected);
    return folder_.relative(testing::internal::GetCapturedStderr());
  };
  EXPECT_EQ(told("gsm8k/cot8", R"({"doc_id": 0, "target": "5", "resps": [["The answer is 5."]]}
{"doc_id": 1, "target": "5", "resps": [[null]]}
)",
                 50),
            "kvc: note: t.jsonl: 1 of 2 responses is null, scored 0 as an empty answer; first: line 2\n");
  EXPECT_EQ(told("longbench/qasper", R"({"pred": null, "answers": ["x"]}
{"pred": NaN, "answers": [""]}
{"pred": "x", "answers": ["x"]}
{"pred": "x", "answers": ["x"]}
)",
                 50),
            "kvc: note: t.jsonl: 1 value is NaN or Infinity, read as NULL; first: pred\n"
            "kvc: note: t.jsonl: 2 of 4 responses are null, scored 0 as an empty answer; first: line 1\n");
  EXPECT_EQ(told("gsm8k/cot8", R"({"generation": null, "gold": "5"})", 0),
            "kvc: note: t.jsonl: 1 of 1 responses is null, scored 0 as an empty answer; first: line 1\n");
}

TEST_F(Predictions, NamesOfFieldsKeepTheMessageOneLine) {
  EXPECT_EQ(error("longbench/qasper", R"({"pred": "x", "a\nb": 1})"),
            ":1:1: error: missing field 'answers'; the line has: a b, pred");
  EXPECT_LT(error("longbench/qasper", "{\"pred\": \"x\", \"" + std::string(100'000, 'a') + "\": 1}").size(), 4200u);
}

TEST_F(Predictions, ALoneSurrogateIsRefused) {
  const auto message = error("longbench/qasper", R"({"pred": "\ud83d", "answers": ["x"]})");
  EXPECT_EQ(message.find(":1:17: error: not JSON: "), 0u) << message;
  EXPECT_NE(message.find("surrogate"), std::string::npos) << message;
}

TEST_F(Predictions, ResultsAreOneJsonObject) {
  const auto spec = load_task(find_task(test::kTasks, "longbench/qasper"));
  AnswerScorer scorer;
  const auto lines = read("longbench/qasper", R"({"pred": "a cat", "answers": ["cat"]}
{"pred": "dog", "answers": ["cat", "cat dog"]}
)");
  const auto scores = score_predictions(spec, spec.extractors[0], lines, file_, scorer);
  EXPECT_EQ(scores_json(scores),
            R"({"task":"longbench/qasper","metric":"f1","extractor":"whole","score":83.33333333333333,"n":2,)"
            R"("n_no_answer":0,"per_sample":[1.0,0.6666666666666666]})");
}

}  // namespace
}  // namespace kvc
