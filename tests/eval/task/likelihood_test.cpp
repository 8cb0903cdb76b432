// Tasks that read a text: their files, and their scores.
#include "task/likelihood.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "task/dataset.h"

namespace kvc {
namespace {

const std::string kGood = R"(version: 1
summary: a text
kind: likelihood
data: {file: t.txt, root: task, format: text}
fields: {text: text}
prompt: {template: "{text}"}
likelihood: {tokens: 64, prompt_tokens: 16, block: 8, reference: full}
)";

class LikelihoodTask : public testing::Test {
 protected:
  LikelihoodTask() { folder_.write("s/t.txt", "In the beginning\nwas the word.\n"); }
  TaskSpec load(const std::string& text) { return load_task(folder_.write("s/t.yaml", text)); }
  // The message for kGood with one text replaced by another, without the folder.
  std::string message(const std::string& from, const std::string& to) {
    auto text = kGood;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    const auto what = test::message_of([&] { load(text); });
    const auto prefix = (folder_ / "s/").string();
    return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
  }
  test::TempFolder folder_;
};

TEST_F(LikelihoodTask, AWholeFileIsOneText) {
  const auto spec = load(kGood);
  EXPECT_EQ(spec.max_new_tokens, 48);
  const auto data = load_dataset(spec, "");
  ASSERT_EQ(data.samples.size(), 1u);
  EXPECT_EQ(render_prompt(spec, data, data.samples[0]).text, "In the beginning\nwas the word.\n");
  EXPECT_EQ(data.samples[0].gold, "");
}

TEST_F(LikelihoodTask, ItsNumbersAreOfWhatTheTaskIs) {
  const auto spec = load(kGood);
  const auto json = spec_json(spec, load_dataset(spec, ""));
  EXPECT_NE(json.find(R"("likelihood":{"block":8,"prompt_tokens":16,"tokens":64})"), std::string::npos) << json;
  EXPECT_EQ(json.find("gold"), std::string::npos) << json;
  EXPECT_NE(spec_json(load(std::string(kGood).replace(kGood.find("block"), 5, "stride: 99, block")), {}).find("99"),
            std::string::npos);
}

TEST_F(LikelihoodTask, WhatIsWrongIsSaidInOneLine) {
  struct Case {
    std::string from, to, message;
  };
  const std::vector<Case> cases = {
      {"tokens: 16", "tokens: 64",
       "t.yaml:7:41: error: likelihood.prompt_tokens is 64, expected 1 to 63: likelihood.tokens is 64, and some must "
       "be left to score"},
      {"prompt_tokens: 16", "prompt_tokens: 0",
       "t.yaml:7:41: error: likelihood.prompt_tokens is '0', expected an integer"},
      {"block: 8", "block: 0", "t.yaml:7:52: error: likelihood.block is '0', expected an integer from 1 to 100000000"},
      {"tokens: 64", "tokens: 1",
       "t.yaml:7:22: error: likelihood.tokens is '1', expected an integer from 2 to 100000000"},
      {", reference: full", "", "t.yaml:7:13: error: missing key 'reference' in likelihood"},
      {"block: 8", "windows: 0", "t.yaml:7:54: error: likelihood.windows is '0', expected an integer from 1"},
      {"block: 8", "stride: 63", "t.yaml:7:53: error: likelihood.stride is '63', expected an integer from 64"},
      {"block: 8", "blok: 8", "t.yaml:7:45: error: unknown key 'blok' (did you mean 'block'?)"},
      {"{text}\"", "{text}\", chat: turn", "t.yaml:7:13: error: a task that reads a text has prompt.chat: never"},
      {"{text}\"", "{text}\", truncate: left",
       "t.yaml:7:13: error: a task that reads a text is cut into windows: prompt.truncate and prompt.max_tokens have "
       "no meaning"},
      {"version: 1", "version: 1\nmax_new_tokens: 4", "t.yaml:2:1: error: unknown key 'max_new_tokens'"},
      {"kind: likelihood", "kind: likelyhood",
       "t.yaml:3:7: error: kind is 'likelyhood' (did you mean 'likelihood'?), allowed: ge"},
      {"format: text", "format: txt",
       "t.yaml:4:41: error: data.format is 'txt' (did you mean 'text'?), allowed: jsonl, j"},
  };
  for (const auto& c : cases) EXPECT_EQ(message(c.from, c.to).substr(0, c.message.size()), c.message);
}

TEST_F(LikelihoodTask, ATextThatIsNoUtf8IsRefusedWithThePlace) {
  std::ofstream(folder_ / "s/t.txt") << "a\nb\xff";
  const auto spec = load(kGood);
  EXPECT_NE(test::message_of([&] { load_dataset(spec, ""); }).find("t.txt:2:2: error: not well-formed UTF-8"),
            std::string::npos);
}

TEST(Likelihood, SumsGoThroughJson) {
  const auto sums = parse_likelihood_json(likelihood_json({7, 1.0 / 3, 1e-300, 6}));
  EXPECT_EQ(sums.n_tokens, 7);
  EXPECT_EQ(sums.nll, 1.0 / 3);
  EXPECT_EQ(sums.kl, 1e-300);
  EXPECT_EQ(sums.n_top1_same, 6);
  for (const char* bad : {"", "{}", "[1]", R"({"n_tokens":0,"nll":0,"kl":0,"n_top1_same":0})", R"({"n_tokens":"7"})"}) {
    EXPECT_THROW(parse_likelihood_json(bad), Error) << bad;
  }
}

TEST(Likelihood, ScoresAreOfAToken) {
  const auto scores = likelihood_scores({4, 8, 1, 3});
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0].name, "top1");
  EXPECT_EQ(scores[0].value, 0.75);
  EXPECT_EQ(scores[1].name, "mean_kl");
  EXPECT_EQ(scores[1].value, 0.25);
  EXPECT_EQ(scores[2].name, "log_likelihood");
  EXPECT_EQ(scores[2].value, -2);
}

}  // namespace
}  // namespace kvc
