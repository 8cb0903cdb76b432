// Experiments that are like others: what they are together, where messages point, and what is no such file.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experiment/bench_experiment.h"
#include "experiment/grid.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/yaml_read.h"
#include "text/yaml_write.h"

namespace kvc::test {
namespace {

class ExperimentLike : public testing::Test {
 protected:
  ExperimentLike() {
    folder_.write("base.yaml", R"(name: base
model: models/demo
tasks: [demo/lookup]
limit: 2
sampling: {temperature: 0.5, top_k: 3}
compressors:
  - full
  - kivi: {bits: 2, group_size: 32}
)");
  }
  Experiment load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return load_experiment(folder_.write("mine.yaml", text), overrides);
  }
  std::string message(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return folder_.relative(message_of([&] { load(text, overrides); }));
  }
  TempFolder folder_;
};

TEST_F(ExperimentLike, AKeyTakesThePlaceOfTheOthersAsAWhole) {
  const auto mine = load("name: mine\nlike: base.yaml\nlimit: 3\nsampling: {top_k: 5}\n");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.limit, 3);
  EXPECT_EQ(mine.sampling.top_k, 5);
  EXPECT_EQ(mine.sampling.temperature, 1);
  EXPECT_EQ(mine.compressors.size(), 2u);
  folder_.write("below/third.yaml", "name: third\nlike: ../mine.yaml\nseed: 7\n");
  const auto third = load_experiment(folder_ / "below/third.yaml", {});
  EXPECT_EQ(third.seed, 7);
  EXPECT_EQ(third.limit, 3);
  EXPECT_EQ(third.tasks, std::vector<std::string>{"demo/lookup"});
}

TEST_F(ExperimentLike, IsFoundAsAFileToRunIs) {
  EXPECT_EQ(load("name: mine\nlike: configs/quickstart.yaml\n").model_name, "models/demo");
}

TEST_F(ExperimentLike, OverridesArePutOverWhatBothSay) {
  const auto mine = load("name: mine\nlike: base.yaml\n", {"compressors.1.kivi.bits=4", "limit=9", "seed=3"});
  EXPECT_EQ(mine.compressors[1].options["bits"], 4);
  EXPECT_EQ(mine.limit, 9);
  EXPECT_EQ(mine.seed, 3);
  EXPECT_EQ(message("name: mine\nlike: base.yaml\n", {"like=other.yaml"}),
            "--set 'like=other.yaml': `like` can only be set in the file, expected another key");
}

TEST_F(ExperimentLike, CellsHaveTheKeysOfTheSameTextWritten) {
  const auto keys = [](const Experiment& experiment) {
    std::vector<std::string> all;
    for (const auto& cell : expand_grid(experiment, find_paths()).cells) all.push_back(cell.record.key);
    return all;
  };
  const auto written = load(
      "name: other\nmodel: models/demo\ntasks: [demo/lookup]\nlimit: 3\nsampling: {temperature: 0.5, top_k: 3}\n"
      "compressors: [full, {kivi: {bits: 2, group_size: 32}}]\n");
  const auto like = load("name: mine\nlike: base.yaml\nlimit: 3\n");
  EXPECT_EQ(keys(like), keys(written));
  EXPECT_EQ(keys(like).size(), 2u);
}

// What a model's end tokens are is read of its files by this program: rows of a program that read others are others.
TEST_F(ExperimentLike, TheKeyOfACellWhoseAnswersAreGeneratedHoldsTheEndTokens) {
  const auto settings = [&](const std::string& task) {
    const auto experiment = load("name: x\nmodel: models/demo\ntasks: [" + task + "]\nlimit: 2\ncompressors: [full]\n");
    return nlohmann::json::parse(expand_grid(experiment, find_paths()).cells.at(0).record.generation_json);
  };
  EXPECT_EQ(settings("demo/lookup").at("end_tokens"), nlohmann::json({1}));
  folder_.write("tasks/s/t.yaml", R"(version: 1
summary: choices
kind: choices
data: {file: d.jsonl, root: task}
fields: {q: q}
gold: {from: a}
prompt: {template: "{q}", truncate: refuse}
choices: {texts: [" a", " b"], scores: [acc]}
)");
  folder_.write("tasks/s/d.jsonl", R"({"q": "a", "a": "0"})");
  EXPECT_FALSE(settings((folder_ / "tasks/s/t.yaml").string()).contains("end_tokens"));  // nothing is generated
}

TEST_F(ExperimentLike, SaysWhichFilesItWasReadFrom) {
  const auto config = load("name: mine\nlike: base.yaml\n").config;
  EXPECT_EQ(config.name, "mine.yaml");
  ASSERT_EQ(config.like.size(), 1u);
  EXPECT_EQ(config.like[0]["name"], "base.yaml");
  EXPECT_NE(config.like[0]["sha256"], config.sha256);
  EXPECT_TRUE(load_experiment(folder_ / "base.yaml", {}).config.like.is_null());
}

TEST_F(ExperimentLike, FilesAreRelativeToTheFileThatNamesThem) {
  folder_.write("there/base.yaml", "text: a.txt\nmodel: m\ntasks: [t]\ncompressors: [full]\n");
  const auto like = load("name: mine\nlike: there/base.yaml\n");
  EXPECT_EQ(like.texts, std::vector{folder_ / "there/a.txt"});
  EXPECT_EQ(like.folder, folder_ / "there");
  EXPECT_EQ(load("name: mine\nlike: there/base.yaml\n", {"text=b.txt"}).texts, std::vector{folder_ / "b.txt"});
  EXPECT_EQ(load("name: mine\nlike: there/base.yaml\ncompressors: [full]\n").folder, folder_.path());
}

TEST_F(ExperimentLike, MessagesNameTheFileOfTheKey) {
  folder_.write("bad.yaml", "model: models/demo\ntasks: [demo/lookup]\nlimit: 0\nlimits: 2\n");
  EXPECT_EQ(message("name: mine\nlike: bad.yaml\ncompressors: [full]\n"),
            "bad.yaml:3:8: error: limit is '0', expected an integer of at least 1; and 1 more error");
  EXPECT_EQ(
      message("name: mine\nlike: bad.yaml\nlimit: 1\ncompressors: [full]\n").find("bad.yaml:4:1: error: unknown key"),
      0u);
  EXPECT_EQ(message("name: mine\nlike: bad.yaml\nlimit: 1\n"),
            "mine.yaml:1:1: error: missing key 'compressors'; and 1 more error");
  EXPECT_EQ(message("name: mine\nlike: base.yaml\nseed: x\n"),
            "mine.yaml:3:7: error: seed is 'x', expected an integer of at least 0");
}

TEST_F(ExperimentLike, WhatNoExperimentIsLikeIsRefused) {
  EXPECT_EQ(message("name: mine\nlike: none.yaml\n"), "mine.yaml:2:7: error: like is 'none.yaml', which is no file");
  EXPECT_EQ(message("name: mine\nlike: .\n"), "mine.yaml:2:7: error: like is '.', which is no file");
  EXPECT_EQ(message("name: mine\nlike: [base.yaml]\n"), "mine.yaml:2:7: error: like is a sequence, expected a string");
  EXPECT_EQ(message("name: mine\nlike: mine.yaml\n"),
            "mine.yaml:2:7: error: more than 4 experiments are like one another");
  EXPECT_EQ(message("like: base.yaml\n"),
            "mine.yaml:1:7: error: the file has no `name`: experiments with the same name would mix");
}

TEST_F(ExperimentLike, HoldsForBenchesToo) {
  folder_.write("times.yaml",
                "kind: bench\nbench: {layer: {n_heads: 2, head_dim: 8}, prompt_tokens: 4, new_tokens: 2}\n"
                "compressors: [full]\n");
  const auto file = folder_.write("mine.yaml", "name: mine\nlike: times.yaml\nthreads: 2\n");
  EXPECT_EQ(experiment_kind(file, {}), RunKind::bench);
  const auto mine = load_bench(file, {"bench.new_tokens=3"});
  EXPECT_EQ(mine.subject.threads, 2);
  EXPECT_EQ(mine.points.at(0).n_new_tokens, 3);
  EXPECT_EQ(mine.config.like.size(), 1u);
}

TEST_F(ExperimentLike, MergedItIsWrittenAsOneFile) {
  const auto file = folder_.write("mine.yaml", "name: mine\nlike: base.yaml\nlimit: 3\n");
  auto all = load_experiment_yaml(file, {}).merged();
  all.remove("like");
  EXPECT_EQ(write_yaml(all).find("name: mine\nlimit: 3\nmodel: models/demo\n"), 0u);
}

}  // namespace
}  // namespace kvc::test
