// Task files that are wrong: one line each, with the place, the value and what was allowed.
#include "task/task_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "task/dataset.h"
#include "text/files.h"

namespace kvc {
namespace {

const std::string kGood = R"(version: 1
summary: sums
data: {file: data.jsonl, root: task}
fields: {question: question}
gold: {from: gold}
prompt: {template: "Q: {question}\nA:"}
max_new_tokens: 8
stop: ["\n"]
extractors:
  - {name: last, steps: [strip], compare: exact}
metric: accuracy
extract_cases:
  - {extractor: last, text: " a", gold: a, answer: a, correct: true}
  - {extractor: last, text: "b ", gold: b, answer: b, correct: true}
  - {extractor: last, text: "c", gold: c, answer: c, correct: true}
  - {extractor: last, text: "d", gold: e, answer: d, correct: false}
  - {extractor: last, text: "", gold: e, answer: "", correct: false}
  - {extractor: last, text: "f", gold: f, answer: f, correct: true}
)";

class TaskSpecTest : public testing::Test {
 protected:
  // The message for kGood with one text replaced by another, without the folder.
  std::string message(const std::string& from, const std::string& to) {
    auto text = kGood;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    file_ = folder_.write("suite/sum.yaml", text);
    const auto what = test::message_of([&] { load_task(file_); });
    const auto prefix = (folder_ / "suite/").string();
    return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  }

  test::TempFolder folder_;
  std::filesystem::path file_;
};

TEST_F(TaskSpecTest, AGoodFileLoads) {
  EXPECT_EQ(message("sums", "sums"), "no error");
  EXPECT_EQ(load_task(file_).name, "suite/sum");
}

TEST_F(TaskSpecTest, AQuestionBeginsWhereItsTextStandsLast) {
  const auto template_of = [](const char* question) {
    return concat("prompt: {template: \"Q: {question} Q: {question}\\nA:\", question: \"", question, "\"}");
  };
  const std::string from = "prompt: {template: \"Q: {question}\\nA:\"}";
  EXPECT_EQ(message(from, template_of("Q: {")), "no error");
  folder_.write("suite/data.jsonl", "{\"question\": \"Q: Q: 1\", \"gold\": \"1\"}\n");
  const auto begin = [&](const char* question) {
    EXPECT_EQ(message(from, template_of(question)), "no error");
    const auto spec = load_task(file_);
    const auto data = load_dataset(spec, {});
    const auto prompt = render_prompt(spec, data, data.samples[0]);
    EXPECT_EQ(prompt.text, "Q: Q: Q: 1 Q: Q: Q: 1\nA:");
    return prompt.text.substr(prompt.question_begin.value());
  };
  EXPECT_EQ(begin("Q: {"), "Q: Q: Q: 1\nA:");
  EXPECT_EQ(begin("{question}"), "Q: Q: 1\nA:");
  EXPECT_EQ(begin("\\nA"), "\nA:");
  EXPECT_EQ(begin(":"), ":");
  struct {
    const char *question, *message;
  } const cases[] = {
      {"q: ", "the template does not hold 'q: '"},
      {"Q: {question} ", "the template begins with 'Q: {question} ', expected something before it"},
      {"tion}", "'tion}' begins within the variable {question}"},
      {"", "prompt.question is empty, expected the text with which the question begins"},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(message(from, template_of(c.question)).ends_with(concat("error: ", c.message)))
        << message(from, template_of(c.question));
  }
}

TEST_F(TaskSpecTest, BadFilesAreRefusedInOneLine) {
  struct {
    std::string from, to, message;
  } const cases[] = {
      {"version: 1", "version: 2", "sum.yaml:1:10: error: version is '2', expected an integer from 1 to 1"},
      {"version: 1\n", "", "sum.yaml:1:1: error: missing key 'version'"},
      {"summary: sums", "sumary: sums", "sum.yaml:1:1: error: missing key 'summary' (is it 'sumary'?)"},
      {"stop:", "stops:",
       "sum.yaml:8:1: error: unknown key 'stops' (did you mean 'stop'?); known: each, like, version, summary, kind, "
       "data, fields, gold, prompt, buckets, max_new_tokens, min_new_tokens, stop, stop_tokens, scoring, extractors, "
       "metric, extract_cases"},
      {"stop: [\"\\n\"]", "stop: [\"\"]",
       "sum.yaml:8:8: error: stop[0] is empty: every generation would be cut to nothing"},
      {"stop: [\"\\n\"]", "stop: x", "sum.yaml:8:7: error: stop is 'x', expected a sequence"},
      {"max_new_tokens: 8", "max_new_tokens: 0",
       "sum.yaml:7:17: error: max_new_tokens is '0', expected an integer from 1 to 1000000"},
      {"root: task", "root: tasks",
       "sum.yaml:3:32: error: data.root is 'tasks' (did you mean 'task'?), allowed: task, data_dir"},
      {"file: data.jsonl", "file: ../data.jsonl",
       "sum.yaml:3:14: error: data.file is '../data.jsonl', expected a path below root: task"},
      {"file: data.jsonl", "file: /data.jsonl",
       "sum.yaml:3:14: error: data.file is '/data.jsonl', expected a path below root: task"},
      {"Q: {question}", "Q: {qestion}",
       "sum.yaml:6:20: error: unknown template variable 'qestion' (did you mean 'question'?); known: question"},
      {"Q: {question}", "{exemplars}{question}",
       "sum.yaml:6:20: error: unknown template variable 'exemplars'; known: question"},
      {"Q: {question}", "Q: { question}",
       "sum.yaml:6:20: error: prompt.template names no field: every prompt would be the same"},
      {"fields: {question: question}", "fields: {exemplars: question}",
       "sum.yaml:4:21: error: field name 'exemplars', expected letters, digits and _, and not 'exemplars'"},
      {"gold: {from: gold}", "gold: {from: gold, pattern: '(a'}",
       "sum.yaml:5:29: error: gold.pattern: pattern '(a' is wrong at offset 2: missing closing parenthesis"},
      {"gold: {from: gold}", "gold: {from: gold, pattern: 'a'}",
       "sum.yaml:5:29: error: gold.pattern has no group (...) for what is looked for"},
      {"[strip]", "[stripe]",
       "sum.yaml:10:26: error: unknown step 'stripe' (did you mean 'strip'?); known: cut_before, before_first, "
       "after_first, after_last, delete, drop_final, drop_leading, drop_trailing, strip, lower, first_line_without, "
       "first_listed, regex, replace, without_spans, first_boxed, last_boxed, any_of"},
      {"[strip]", "[delete]", "sum.yaml:10:26: error: step 'delete' needs a value: {delete: ...}"},
      {"[strip]", "[{strip: x}]", "sum.yaml:10:34: error: step 'strip' takes no value"},
      {"[strip]", "[{delete: \"\"}]",
       "sum.yaml:10:35: error: extractors[0].steps[0].delete is empty, expected text to look for"},
      {"[strip]", "[{delete: a, lower: b}]",
       "sum.yaml:10:26: error: extractors[0].steps[0] has 2 keys, expected one step"},
      {"[strip]", "[{regex: {pattern: '(a', which: last}}]",
       "sum.yaml:10:44: error: extractors[0].steps[0].regex.pattern: pattern '(a' is wrong at offset 2: missing "
       "closing "
       "parenthesis"},
      {"[strip]", "[{regex: {pattern: 'a', group: 1}}]",
       "sum.yaml:10:56: error: extractors[0].steps[0].regex.group is '1', expected an integer from 0 to 0"},
      {"[strip]", "[{regex: {pattern: 'a', which: lst}}]",
       "sum.yaml:10:56: error: extractors[0].steps[0].regex.which is 'lst' (did you mean 'last'?), allowed: first, "
       "last"},
      {"compare: exact", "compare: text",
       "sum.yaml:10:43: error: extractors[0].compare is 'text', allowed: exact, match_all, match_part, "
       "number, latex, leading_lines, option_mention, classification, "
       "number_precision, f1, f1_zh, rouge_l, rouge_l_zh, edit_similarity, edit_similarity_levenshtein"},
      {"compare: exact", "compare: classification",
       "sum.yaml:10:3: error: extractor 'last' compares by 'classification', which needs gold.classes, the field of "
       "the "
       "names to choose from"},
      {"[strip]", "[{first_listed: []}]",
       "sum.yaml:10:41: error: extractors[0].steps[0].first_listed is empty, expected at least one"},
      {"[strip]", "[{any_of: [strip]}]",
       "sum.yaml:10:36: error: extractors[0].steps[0].any_of[0] is 'strip', expected a sequence"},
      {"[strip]", "[any_of]", "sum.yaml:10:26: error: step 'any_of' needs a value: {any_of: ...}"},
      {"stop: [\"\\n\"]", "scoring: {file: x.yaml, root: task}",
       "sum.yaml:8:10: error: there is no file 'x.yaml' in the task file's folder"},
      {"gold: a, answer: a, correct: true", "gold: a, answer: a, score: 2",
       "sum.yaml:13:62: error: extract_cases[0].score is '2', expected a number from 0 to 1"},
      {"  - {name: last, steps: [strip], compare: exact}\n",
       "  - {name: last, steps: [], compare: exact}\n  - {name: last, steps: [], compare: exact}\n",
       "sum.yaml:11:5: error: two extractors named 'last'"},
      {"metric: accuracy", "metric: f1",
       "sum.yaml:11:9: error: metric is 'f1', but the first extractor compares by 'exact', which gives 'accuracy'"},
      {"metric: accuracy", "metric: f2",
       "sum.yaml:11:9: error: metric is 'f2' (did you mean 'f1'?), allowed: accuracy, match_all, match_part, "
       "leading_lines, classification, number_precision, "
       "f1, f1_zh, rouge_l, rouge_l_zh, edit_similarity, edit_similarity_levenshtein"},
      {"{extractor: last, text: \" a\"", "{extractor: lst, text: \" a\"",
       "sum.yaml:13:17: error: extract_cases[0].extractor is 'lst' (did you mean 'last'?), allowed: last"},
      {"  - {extractor: last, text: \" a\", gold: a, answer: a, correct: true}\n", "",
       "sum.yaml:13:3: error: extractor 'last' has 5 extract cases, expected at least 6"},
      {"correct: true", "correct: yes",
       "sum.yaml:13:64: error: extract_cases[0].correct is 'yes', expected true or false"},
      {"answer: a", "answer: no",
       "sum.yaml:13:52: error: extract_cases[0].answer is 'no', expected a string (write it in quotes)"},
  };
  for (const auto& c : cases) EXPECT_EQ(message(c.from, c.to), c.message);
}

// The protocol of DecoQuant's in-context tasks: items over 2,048 tokens are skipped.
TEST(Tasks, InContextQuestionsBeyond2048TokensAreLeftOut) {
  const auto tasks = std::filesystem::path(KVC_SOURCE_DIR) / "tasks";
  int n = 0;
  for (const auto& id : find_tasks(tasks)) {
    if (!id.name().starts_with("icl/")) continue;
    const auto spec = load_task(id);
    EXPECT_EQ(spec.limit.max_tokens, 2048) << spec.name;
    EXPECT_EQ(spec.limit.side, PromptLimit::Side::kRefuse) << spec.name;
    ++n;
  }
  EXPECT_EQ(n, 5 * 3);
}

}  // namespace
}  // namespace kvc
