#include "task/dataset.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/files.h"

namespace kvc {
namespace {

const char* const kTask = R"(version: 1
summary: sums
data: {file: sum.jsonl, root: task}
fields: {question: q, hint: h}
gold: {from: a, pattern: '#### (.*)'}
prompt:
  exemplars: {file: sum/shots.txt, root: prompts}
  template: "{exemplars}Q: {question} {{hint}} {hint}{ x}\nA:"
max_new_tokens: 8
extractors:
  - {name: last, steps: [{regex: '[0-9]+'}], gold_steps: [{delete: ','}], compare: number}
metric: accuracy
extract_cases:
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
  - {extractor: last, text: a 1, gold: "1", answer: "1", correct: true}
)";

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    write("tasks/sum/sum.yaml", kTask);
    write("prompts/sum/shots.txt", "Q: {question}?\nA: {hint}\n\n");
  }
  void write(const std::string& file, const std::string& text) { root_.write(file, text); }
  Dataset load(const std::string& lines) {
    write("tasks/sum/sum.jsonl", lines);
    return load_dataset(spec(), {});
  }
  TaskSpec spec() { return load_task(root_ / "tasks/sum/sum.yaml"); }
  // The message without the folder.
  std::string message(const std::string& lines) {
    return root_.relative(test::message_of([&] { load(lines); }));
  }
  test::TempFolder root_;
};

TEST_F(DatasetTest, BracesInDataAreText) {
  const auto data = load("{\"q\": \"1 {hint} + {exemplars}?\", \"h\": \"{question}\", \"a\": \"x #### 1,000\"}\n");
  const auto prompt = render_prompt(spec(), data, data.samples[0]);
  EXPECT_EQ(prompt.text, "Q: {question}?\nA: {hint}\n\nQ: 1 {hint} + {exemplars}? {{question}} {question}{ x}\nA:");
  EXPECT_EQ(prompt.shared_prefix, "Q: {question}?\nA: {hint}\n\nQ: ");
  std::string joined;
  for (const auto& part : prompt.parts) joined += part.text;
  EXPECT_EQ(joined, prompt.text);
  EXPECT_EQ(prompt.parts[2].name, "question");
  EXPECT_EQ(data.samples[0].gold, "1,000");
}

TEST_F(DatasetTest, SamplesAreNumberedInFileOrder) {
  const auto data =
      load("{\"q\":\"b\",\"h\":\"\",\"a\":\"#### 2\",\"id\":9}\n\n{\"q\":\"a\",\"h\":\"\",\"a\":\"#### 1\"}");
  ASSERT_EQ(data.samples.size(), 2u);
  EXPECT_EQ(data.samples[1].id, 1);
  EXPECT_EQ(data.samples[1].fields.at("question"), "a");
  EXPECT_EQ(data.dataset_sha256, sha256_file(root_ / "tasks/sum/sum.jsonl"));
  EXPECT_EQ(data.exemplars_sha256, sha256_hex("Q: {question}?\nA: {hint}\n\n"));
}

TEST_F(DatasetTest, BadLinesAreNamed) {
  const std::string good = "{\"q\":\"b\",\"h\":\"\",\"a\":\"#### 2\"}\n";
  EXPECT_EQ(message(good + "{\"question\":\"b\",\"h\":\"\",\"a\":\"#### 2\"}"),
            "tasks/sum/sum.jsonl:2:1: error: unknown field 'q'; known: a, h, question");
  EXPECT_EQ(message(good + "{\"q\":null,\"h\":\"\",\"a\":\"#### 2\"}"),
            "tasks/sum/sum.jsonl:2:1: error: field 'q' is null, expected a string, a number or a boolean");
  EXPECT_EQ(message("[[1]]"), "tasks/sum/sum.jsonl:1:1: error: an item is array, expected an object");
  EXPECT_EQ(message("{\"q\":\"b\",\"h\":\"\",\"a\":\"2\"}"),
            "tasks/sum/sum.jsonl:1:1: error: field 'a' has no match of '#### (.*)'");
  EXPECT_EQ(message("{\"q\":\"b\",\"h\":\"\",\"a\":\"#### two\"}"),
            "tasks/sum/sum.jsonl:1:1: error: extractor 'last' finds no answer in the gold 'two'");
  EXPECT_EQ(message("{\"q\":\"\xFF\"}"), "tasks/sum/sum.jsonl:1:7: error: not well-formed UTF-8");
  EXPECT_EQ(message(" \n"), "tasks/sum/sum.jsonl:1:1: error: the file holds no samples");
  write("prompts/sum/shots.txt", "\xFF");
  EXPECT_EQ(message(good), "prompts/sum/shots.txt:1:1: error: not well-formed UTF-8");
}

TEST_F(DatasetTest, MissingFilesAreNamedWhereTheyAreAskedFor) {
  EXPECT_EQ(test::message_of([&] { load_dataset(spec(), {}); }),
            concat((root_ / "tasks/sum/sum.yaml").string(), ":3:14: error: there is no file '",
                   (root_ / "tasks/sum/sum.jsonl").string(), "'"));
  const auto gsm8k = load_task(std::filesystem::path(KVC_SOURCE_DIR) / "tasks/gsm8k/cot8.yaml");
  EXPECT_NE(test::message_of([&] { load_dataset(gsm8k, {}); })
                .find("gsm8k_prompt_original.txt' is in the data folder, and none was given: set KVC_DATA or the "
                      "experiment's data_dir; `kvc data gsm8k/cot8"),
            std::string::npos);
}

TEST_F(DatasetTest, TheJsonHoldsContentAndNoPlaces) {
  const auto json = nlohmann::json::parse(spec_json(spec(), load("{\"q\":\"b\",\"h\":\"\",\"a\":\"#### 2\"}\n")));
  EXPECT_EQ(nlohmann::json::parse(scoring_json(spec())).at("extractors").dump(),
            "[{\"compare\":\"number\",\"gold_steps\":[{\"delete\":\",\"}],\"name\":\"last\",\"steps\":[{\"regex\":"
            "{\"group\":0,\"pattern\":\"[0-9]+\",\"which\":\"first\"}}]}]");
  EXPECT_EQ(json["template"][0].dump(), "{\"variable\":\"exemplars\"}");
  EXPECT_EQ(json["template"][1].dump(), "{\"text\":\"Q: \"}");
  EXPECT_EQ(json["max_new_tokens"], 8);
  EXPECT_EQ(json.dump().find(root_.string()), std::string::npos);
  EXPECT_FALSE(json.contains("extractors") || json.contains("metric"));
  const auto before = json.dump();
  write("prompts/sum/shots.txt", "other");
  EXPECT_NE(spec_json(spec(), load_dataset(spec(), {})), before);
}

TEST_F(DatasetTest, GoldsMayBeListsWithNamesToChooseFrom) {
  std::string task = kTask;
  const std::string plain = "gold: {from: a, pattern: '#### (.*)'}";
  task.replace(task.find(plain), plain.size(), "gold: {from: a, list: true, classes: names}");
  write("tasks/sum/sum.yaml", task);
  const auto data = load("{\"q\": \"x\", \"h\": \"y\", \"a\": [\"3\", \"1,000\"], \"names\": [\"n\", \"m\"]}\n");
  EXPECT_EQ(data.samples[0].gold, R"({"answers":["3","1,000"],"classes":["n","m"]})");
  const auto gold = parse_gold(data.samples[0].gold, has_structured_gold(spec()));
  EXPECT_EQ(gold.answers, (std::vector<std::string>{"3", "1,000"}));
  EXPECT_EQ(gold.classes, (std::vector<std::string>{"n", "m"}));
  EXPECT_EQ(message("{\"q\": \"x\", \"h\": \"y\", \"a\": \"3\", \"names\": [\"n\"]}\n"),
            "tasks/sum/sum.jsonl:1:1: error: field 'a' is string, expected a list of strings");
  EXPECT_EQ(message("{\"q\": \"x\", \"h\": \"y\", \"a\": [\"3\", \"many\"], \"names\": [\"n\"]}\n"),
            "tasks/sum/sum.jsonl:1:1: error: extractor 'last' finds no answer in the gold 'many'");
  EXPECT_THROW(parse_gold("3", true), Error);
  EXPECT_EQ(parse_gold("{\"answers\": 3}", false).answers[0], "{\"answers\": 3}");  // a plain gold is any text
}

// As needle/place has them: each length with each depth, four times, the shortest first.
Dataset lengths_and_depths() {
  Dataset data;
  for (int length = 0; length < 7; ++length) {
    for (int i = 0; i < 20; ++i) {
      auto& sample = data.samples.emplace_back();
      sample.id = length * 20 + i;
      sample.buckets = {"length " + std::to_string(length), "depth " + std::to_string(i / 4)};
    }
  }
  return data;
}

std::vector<int64_t> ids_of(const Dataset& data) {
  std::vector<int64_t> ids;
  for (const auto& sample : data.samples) ids.push_back(sample.id);
  return ids;
}

TEST(KeepSamples, TakesLengthsAndDepthsAlikeWhateverTheLimit) {
  std::vector<int64_t> before;
  for (size_t n = 1; n <= 140; ++n) {
    auto data = lengths_and_depths();
    keep_samples(data, n);
    const auto ids = ids_of(data);
    ASSERT_EQ(ids.size(), n);
    EXPECT_TRUE(std::includes(ids.begin(), ids.end(), before.begin(), before.end())) << n;  // both ascend
    std::map<std::string, int64_t> counts;
    std::map<std::vector<std::string>, int64_t> both;
    for (const auto& sample : data.samples) {
      for (const auto& bucket : sample.buckets) ++counts[bucket];
      ++both[sample.buckets];
    }
    const auto count = [&](const char* kind, int i) { return counts[std::string(kind) + " " + std::to_string(i)]; };
    for (int i = 1; i < 7; ++i) EXPECT_LE(std::abs(count("length", i) - count("length", 0)), 2) << n;
    for (int i = 1; i < 5; ++i) EXPECT_LE(std::abs(count("depth", i) - count("depth", 0)), 2) << n;
    for (const auto& [buckets, n_both] : both) EXPECT_LE(n_both, static_cast<int64_t>((n + 34) / 35)) << n;
    before = ids;
  }
}

TEST(KeepSamples, TakesTheFirstWhereThereIsNothingToBalance) {
  auto data = lengths_and_depths();
  for (auto& sample : data.samples) sample.buckets.clear();
  keep_samples(data, 3);
  EXPECT_EQ(ids_of(data), (std::vector<int64_t>{0, 1, 2}));
  keep_samples(data, 9);
  EXPECT_EQ(data.samples.size(), 3u);
}

}  // namespace
}  // namespace kvc
