#include <bzlib.h>

#include "predictions/choice_predictions.h"
#include "predictions/score_predictions.h"
#include "target.h"
#include "task/dataset.h"

namespace kvc_fuzz {
namespace {

using kvc::TaskSpec;
using nlohmann::json;
namespace fs = std::filesystem;

// Which of the tasks the case's file is read for.
size_t chosen = 0;

constexpr const char* kRest = R"(
fields: {question: q}
gold: {from: answer}
prompt: {template: "{question}\nA:"}
max_new_tokens: 8
extractors: [{name: last, steps: [{regex: {pattern: '[a-z0-9]+', which: last}}, lower], compare: exact}]
metric: accuracy
buckets: [{by: length, below: {short: 100}, rest: long}, {by: depth}]
extract_cases: [&c {extractor: last, text: x, gold: x, answer: x, correct: true}, *c, *c, *c, *c, *c]
)";

// A form of data each, and what tasks do with fields.
std::vector<TaskSpec> dataset_tasks(const fs::path& dir) {
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"d.jsonl", ""},
      {"d.json", ", format: json, items: items"},
      {"d.csv", ", format: csv, columns: [q, answer, length, depth]"},
      {"d.txt", ", format: lines, columns: [q, answer]"},
      {"d.text", ", format: text"},
      {"d.jsonl.bz2", ""},
      {"d.latin", ", encoding: latin1"}};
  std::vector<TaskSpec> specs;
  for (const auto& [file, rest] : forms) {
    const auto yaml = dir / "suite" / (file + ".yaml");
    const bool is_flat = file == "d.csv" || file == "d.txt" || file == "d.text";
    std::string keys = kRest;
    if (is_flat) keys.erase(keys.find("buckets:"), keys.find("extract_cases") - keys.find("buckets:"));
    if (file == "d.text") keys.replace(keys.find("answer"), 6, "text"), keys.replace(keys.find(": q}"), 4, ": text}");
    write_file(yaml, "version: 1\nsummary: s\ndata: {file: " + file + ", root: task" + rest + "}" + keys);
    specs.push_back(kvc::load_task(yaml));
  }
  return specs;
}

std::vector<TaskSpec> specs;

void prepare_dataset(const fs::path& dir) {
  fs::create_directory(dir / "suite");
  specs = dataset_tasks(dir);
}

std::string packed(std::string text, Mutator& mutator) {
  auto n = static_cast<unsigned>(text.size() + text.size() / 50 + 1000);
  std::string out(n, '\0');
  BZ2_bzBuffToBuffCompress(out.data(), &n, text.data(), static_cast<unsigned>(text.size()), 1, 0, 0);
  out.resize(n);
  if (mutator.one_in(4)) out[mutator.below(n)] ^= static_cast<char>(1 << mutator.below(8));
  if (mutator.one_in(8)) out.resize(mutator.below(n));
  return out;
}

void write_dataset(const fs::path& dir, std::string text, Mutator& mutator) {
  chosen = mutator.below(specs.size());
  const auto name = specs[chosen].yaml_file.stem();
  write_file(dir / "suite" / name, name.extension() == ".bz2" ? packed(std::move(text), mutator) : text);
}

void read_dataset(const fs::path& dir) {
  const auto& spec = specs[chosen];
  const auto data = kvc::load_dataset(spec, dir);
  promise(!data.samples.empty(), "a dataset without a sample");
  for (const auto& sample : data.samples) kvc::render_prompt(spec, data, sample);
}

std::vector<json> dataset_seeds() {
  const json row = {{"q", "How many? 12"}, {"answer", "12"}, {"length", 64}, {"depth", 50}, {"more", {1, "x"}}};
  const std::string line = row.dump() + "\n";
  return {line + line + line, row,       {{"items", {row, row}}}, "a,b,1,2\n\"a \"\"q\"\"\nb\",c,3,4\r\n",
          "q\na\nq\na\n",     "\"open\n"};
}

constexpr const char* kScored[] = {
    "gsm8k/cot8",      "longbench/trec", "longbench/qasper", "longbench/gov_report",    "longbench/lcc",
    "piqa/validation", "lambada/openai", "demo/truth",       "longbench/passage_count", "bbh/navigate"};

void prepare_predictions(const fs::path&) {
  specs.clear();
  for (const char* name : kScored) {
    specs.push_back(kvc::load_task(kvc::find_task(fs::path(KVC_SOURCE_DIR) / "tasks", name)));
  }
}

void read_predictions(const fs::path& dir) {
  static kvc::AnswerScorer scorer;
  const auto& spec = specs[chosen];
  const auto file = dir / "p.jsonl";
  const auto predictions = kvc::read_predictions(spec, file).samples;
  const auto check = [](const kvc::PredictionScores& scores) {
    for (const auto& sample : scores.samples) {
      promise(sample.score >= 0 && sample.score <= 1, "a score of " + std::to_string(sample.score));
    }
    kvc::scores_json(scores);
  };
  if (spec.choices) {
    for (const auto& name : kvc::scores_of_likelihoods(*spec.choices)) {
      check(kvc::score_choice_predictions(spec, name, predictions, file));
    }
    return;
  }
  for (const auto& extractor : spec.extractors) {
    check(kvc::score_predictions(spec, extractor, predictions, file, scorer));
  }
}

std::vector<json> prediction_seeds() {
  const json longbench = {{"pred", "A b c"}, {"answers", {"B", "a"}}, {"all_classes", {"A", "B"}}, {"length", 3}};
  const json plain = {{"generation", "The answer is 5."}, {"gold", {"work\n#### 5", "6"}}, {"classes", {"5"}}};
  const json lm_eval = {{"doc_id", 0},
                        {"doc", {{"answer", "So\n#### 18"}, {"target", "yes"}}},
                        {"target", "18"},
                        {"resps", {{"It is 18."}}},
                        {"filter", "strict-match"}};
  const json choice = {{"doc_id", 1},
                       {"resps", {{{"-10.0", "False"}}, {{"-12.0", "True"}}}},
                       {"arguments", {{"gen_args_0", {{"arg_1", " abcde"}}}, {"gen_args_1", {{"arg_1", " x"}}}}},
                       {"target", "0"},
                       {"acc", 1.0}};
  std::vector<json> seeds = {longbench, plain, lm_eval, choice};
  for (const auto& one : std::vector<json>(seeds)) seeds.push_back(one.dump() + "\n" + one.dump() + "\n");
  return seeds;
}

}  // namespace

Target dataset_target() {
  return {"dataset",
          14,
          dataset_seeds(),
          {"q", "answer", "length", "depth", "items", "\"", "\"\"", ",", "\r\n", "\n\n", "12", "{}\n", "[]\n"},
          prepare_dataset,
          write_dataset,
          read_dataset};
}

Target predictions_target() {
  return {"predictions",
          8,
          prediction_seeds(),
          {"pred",        "answers",
           "all_classes", "generation",
           "gold",        "classes",
           "doc_id",      "doc",
           "target",      "resps",
           "arguments",   "gen_args_0",
           "arg_1",       "acc",
           "acc_norm",    "-inf",
           "nan",         "1e400",
           "True",        "\n",
           "yes",         "The answer is yes.",
           "#### 5",      "Paragraph 3",
           "e\u0301",     "\u4f60\u597d"},
          prepare_predictions,
          [](const fs::path& dir, std::string text, Mutator& mutator) {
            chosen = mutator.below(specs.size());
            write_file(dir / "p.jsonl", text);
          },
          read_predictions};
}

}  // namespace kvc_fuzz
