// The benchmarks' tasks against their data: numbers of items and golds that the papers state, and prompts byte by byte.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/csv.h"
#include "support/places.h"
#include "task/dataset.h"
#include "text/files.h"
#include "text/jsonl.h"
#include "text/nearest.h"

namespace kvc {
namespace {

class BenchmarkData : public testing::Test {
 protected:
  void SetUp() override {
    const char* data_dir = std::getenv("KVC_DATA");
    if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds the benchmarks";
    data_dir_ = data_dir;
  }
  Dataset load(const std::string& name) {
    spec_ = load_task(find_task(test::kTasks, name));
    return load_dataset(spec_, data_dir_);
  }
  size_t n_items(const std::string& name) { return load(name).samples.size(); }
  std::string prompt(const std::string& name, size_t i) {
    const auto data = load(name);
    return render_prompt(spec_, data, data.samples.at(i)).text;
  }
  std::filesystem::path data_dir_;
  TaskSpec spec_;
};

TEST_F(BenchmarkData, HasAsManyItemsAsThePapersSay) {
  const std::map<std::string, size_t> expected = {
      {"gsm8k/shot5", 1319},
      {"aqua/cot8", 254},
      {"lambada/openai", 5153},
      {"lambada/last_token", 4869},
      {"piqa/validation", 1838},
      {"hellaswag/validation", 10042},
      {"icl/mr/0", 1066},
      {"icl/subj/0", 2000},
      {"icl/boolq/0", 3270},
      {"icl/rte/0", 277},
      {"icl/ag_news/0", 7600},
      {"longbench/multi_news", 200},
      {"longbench/multifieldqa_zh", 200},
      {"longbench/passage_retrieval_zh", 200},
  };
  for (const auto& [name, n] : expected) EXPECT_EQ(n_items(name), n) << name;
}

TEST_F(BenchmarkData, BbhHas27SubsetsAnd6511Items) {
  size_t n_subsets = 0, n = 0;
  for (const auto& id : find_tasks(test::kTasks)) {
    if (!id.name().starts_with("bbh/")) continue;
    ++n_subsets;
    n += n_items(id.name());
  }
  EXPECT_EQ(n_subsets, 27u);
  EXPECT_EQ(n, 6511u);
}

TEST_F(BenchmarkData, MmluHas57SubjectsAndTheRowsOfTheAuthorsFiles) {
  size_t n_subjects = 0, n = 0;
  for (const auto& variant : task_variants(test::kTasks / "mmlu" / "zero_shot.yaml")) {
    ++n_subjects;
    n += n_items("mmlu/zero_shot/" + variant);
  }
  EXPECT_EQ(n_subjects, 57u);
  EXPECT_EQ(n, 14079u);
}

// Gold letters of AQuA's test set: A63 B58 C46 D53 E34.
TEST_F(BenchmarkData, AquaGoldsAreTheKnownOnes) {
  std::map<std::string, int> counts;
  const auto data = load("aqua/cot8");
  for (const auto& sample : data.samples) {
    for (const char* letter : {"A", "B", "C", "D", "E"}) {
      counts[letter] += sample.gold.find("\"answers\":[\"" + std::string(letter) + "\"]") != std::string::npos;
    }
  }
  EXPECT_EQ(counts, (std::map<std::string, int>{{"A", 63}, {"B", 58}, {"C", 46}, {"D", 53}, {"E", 34}}));
}

// The known lengths of the word lists: seven last "words" of LAMBADA hold a line feed.
TEST_F(BenchmarkData, LambadaSplitsAtTheLastBlank) {
  int n_feeds = 0;
  const auto data = load("lambada/openai");
  for (const auto& sample : data.samples) {
    n_feeds += sample.gold.find('\n') != std::string::npos;
    EXPECT_EQ(sample.choices, std::vector{" " + sample.gold});
    EXPECT_EQ(sample.gold.find(' '), std::string::npos);
  }
  EXPECT_EQ(n_feeds, 7);
}

TEST_F(BenchmarkData, MathqaOptionsAreFive) {
  const auto data = load("mathqa/test");
  for (const auto& sample : data.samples) EXPECT_EQ(sample.choices.size(), 5u) << sample.id;
  EXPECT_EQ(data.samples[0].choices, (std::vector<std::string>{" 12", " 16", " 18", " 24", " 26"}));
}

// DecoQuant's draw of two demonstrations for MR: items 6,004 and 2,630 of the training split, positives first.
TEST_F(BenchmarkData, DemonstrationsAreTheStatedItems) {
  const auto line = [&](const char* file, int n) {
    const auto text = read_file(data_dir_ / "mr_subj" / file);
    size_t at = 0;
    for (int i = 0; i < n; ++i) at = text.find('\n', at) + 1;
    auto found = text.substr(at, text.find('\n', at) - at);
    return found.substr(0, found.find_last_not_of(' ') + 1);
  };
  const auto data = load("icl/mr/2");
  EXPECT_EQ(data.exemplars, "Review: " + line("rt-polarity.neg", 6004 - 4265) + "\nSentiment: negative\n\nReview: " +
                                line("rt-polarity.pos", 2630) + "\nSentiment: positive\n\n");
  EXPECT_TRUE(prompt("icl/mr/2", 0).starts_with(data.exemplars + "Review: "));
  EXPECT_TRUE(prompt("icl/mr/0", 0).starts_with("Review: "));
}

TEST_F(BenchmarkData, MmluFiveShotHasTheLettersBehindTheDevelopmentQuestions) {
  const auto text = prompt("mmlu/five_shot/abstract_algebra", 0);
  EXPECT_TRUE(
      text.starts_with("The following are multiple choice questions (with answers) about abstract algebra.\n\n"));
  EXPECT_NE(text.find("\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer: B\n\n"), std::string::npos);  // the first of the dev file
  EXPECT_TRUE(text.ends_with("\nAnswer:"));
}

TEST_F(BenchmarkData, GsmFiveShotIsTheFirstFiveTrainingItems) {
  std::string expected;
  int n = 0;
  read_jsonl(data_dir_ / "gsm8k/train.jsonl", [&](int64_t, const nlohmann::json& item) {
    if (n++ < 5) {
      expected += "Question: " + item["question"].get<std::string>() +
                  "\nAnswer: " + item["answer"].get<std::string>() + "\n\n";
    }
  });
  EXPECT_TRUE(prompt("gsm8k/shot5", 0).starts_with(expected + "Question: Janet"));
}

// sha256 of all prompts one behind the other, by Python: dataset2prompt[name].format(**item), and the scripts' own
// sums.
TEST_F(BenchmarkData, PromptsAreTheBytesThatThePublicScriptsMake) {
  const auto all_of = [&](const std::string& name) {
    const auto data = load(name);
    std::string all;
    for (const auto& sample : data.samples) all += render_prompt(spec_, data, sample).text;
    return all;
  };
  EXPECT_EQ(sha256_hex(all_of("longbench/multi_news")),
            "98e334bd10e685f318806ffb8cc7e43c7357efeecabf039f9c8d27ddc20d658e");
  EXPECT_EQ(sha256_hex(all_of("longbench/multifieldqa_zh")),
            "1696eab5141ca39995940ceb9f80cd7ce0adb5c3534b84d2f88577bdb0d3c011");
  EXPECT_EQ(sha256_hex(all_of("longbench/passage_retrieval_zh")),
            "6f6a9982561520928e89adb39785205e44ce3f444f2a8b0bcf3877c3b7df0743");
  EXPECT_EQ(sha256_hex(all_of("aqua/cot8")), "c1232d1a033dad7b177e775d739faec58353ced0edf355310f20bfcbb6ff37c5");
  std::string bbh;
  for (const auto& id : find_tasks(test::kTasks)) {
    if (id.name().starts_with("bbh/")) bbh += all_of(id.name());
  }
  EXPECT_EQ(sha256_hex(bbh), "c2f418fa5069f6ce81d04a8c94f6d5ee0967ccb5bf11349457646d719e752d8d");
}

// sha256 over Python's csv.reader and re.findall, fields ended by U+001F and rows by U+001E.
TEST_F(BenchmarkData, CsvFieldsAndOptionsAreThoseOfPython) {
  const auto fields_of = [&](const std::filesystem::path& file) {
    std::string all;
    for (const auto& row : parse_csv(file.string(), read_file(file))) all += join(row.fields, "\x1f") + "\x1e";
    return all;
  };
  std::string mmlu, options;
  for (const auto& variant : task_variants(test::kTasks / "mmlu" / "zero_shot.yaml")) {
    mmlu += fields_of(data_dir_ / "mmlu" / "test" / (variant + "_test.csv"));
  }
  EXPECT_EQ(sha256_hex(mmlu), "f8c739c9181cfd9d1156b1e33ef9222bc0d1e1ec204f727633433e664429c5b5");
  EXPECT_EQ(sha256_hex(fields_of(data_dir_ / "ag_news" / "test.csv")),
            "67ad276088bb1c01fe4e017df39a1317a431021f7f69df48751de91360e11d48");
  for (const auto& sample : load("mathqa/test").samples) options += join(sample.choices, "\x1f") + "\x1e";
  EXPECT_EQ(sha256_hex(options), "22da5d75e48ff04471c0f937dbdb9dc82cdd93692a53600dde6d03fa19a65a32");
}

// The fields that a template of one or two variables was filled with, where the text fits it.
std::optional<std::vector<std::string>> take_apart(const Template& parts, std::string text) {
  std::vector<std::string> literals{""};
  for (const auto& part : parts) {
    if (part.is_variable) literals.push_back("");
    if (!part.is_variable) literals.back() = part.text;
  }
  if (!text.starts_with(literals.front()) || !text.ends_with(literals.back())) return std::nullopt;
  text = text.substr(literals.front().size(), text.size() - literals.front().size() - literals.back().size());
  if (literals.size() == 2) return std::vector{text};
  const auto at = text.rfind(literals[1]);
  if (at == std::string::npos) return std::nullopt;
  return std::vector{text.substr(0, at), text.substr(at + literals[1].size())};
}

class MiniPrompts : public BenchmarkData {
 protected:
  // The task of the official set and a dataset of its prompt alone.
  const std::pair<TaskSpec, Dataset>& official(const std::string& set) {
    auto [at, is_new] = officials_.try_emplace(set);
    if (!is_new) return at->second;
    auto& [task, dataset] = at->second;
    task = load_task(find_task(test::kTasks, "longbench/" + set));
    const auto templates = nlohmann::json::parse(read_file(data_dir_ / task.template_file->file));
    dataset.prompt = parse_prompt_template(
        task, templates.at(nlohmann::json::json_pointer(task.template_pointer)).get<std::string>());
    return at->second;
  }
  // Whether the official template of `set` gives `text` back, filled with what it was filled with.
  bool is_fill(const std::string& set, const std::string& text) {
    const auto& [task, dataset] = official(set);
    const auto fields = take_apart(dataset.prompt, text);
    if (!fields) return false;
    Sample sample;
    sample.fields = {{"context", fields->front()}, {"input", fields->back()}};
    return render_prompt(task, dataset, sample).text == text;
  }

  std::map<std::string, std::pair<TaskSpec, Dataset>> officials_;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Of MiniLongBench's 237 prompts all but 26 are the official template's fill, byte by byte. Those: narrativeqa has the
// typo "asconcisely" repaired, qasper the template of hotpotqa, and multi_news one line feed more at its end.
TEST_F(MiniPrompts, AreTheOfficialTemplatesFill) {
  std::map<std::string, int> others;
  int n = 0;
  for (const auto& variant : task_variants(test::kTasks / "longbench_mini" / "prompts.yaml")) {
    read_jsonl(data_dir_ / "longbench_mini" / (variant + ".jsonl"), [&](int64_t line, const nlohmann::json& item) {
      ++n;
      const auto text = item["prompt"].get<std::string>();
      if (is_fill(variant, text)) return;
      ++others[variant];
      EXPECT_TRUE(
          (variant == "narrativeqa" && is_fill(variant, replaced(text, "as concisely as you", "asconcisely as you"))) ||
          (variant == "qasper" && is_fill("hotpotqa", text)) ||
          (variant == "multi_news" && is_fill(variant, text.substr(0, text.size() - 1))))
          << variant << " " << line;
    });
  }
  EXPECT_EQ(n, 237);
  EXPECT_EQ(others, (std::map<std::string, int>{{"narrativeqa", 6}, {"qasper", 9}, {"multi_news", 11}}));
}

}  // namespace
}  // namespace kvc
