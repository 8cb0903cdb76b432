// Questions that are made to a length: how long they are, what they hold, that what they ask for can be found in them,
// and nowhere else. A token is four bytes here; tests/run/run has real tokenizers.
#include "data/made.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "data/random.h"
#include "data/sentences.h"
#include "scoring/answer_scorer.h"
#include "support/message_of.h"
#include "support/places.h"
#include "support/temp_folder.h"
#include "task/dataset.h"
#include "text/files.h"

namespace kvc {
namespace {

using Texts = std::vector<std::string>;

const Texts kSix = {"niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe"};
const Texts kInText = {"niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multivalue", "niah_multiquery"};

PromptGauge gauge(int64_t context) {
  PromptGauge gauge;
  gauge.n_tokens = [](const std::string& text) { return (static_cast<int64_t>(text.size()) + 3) / 4; };
  gauge.n_prompt_tokens = [n = gauge.n_tokens](const Prompt& prompt) { return n(prompt.text + prompt.answer_prefix); };
  gauge.context = context;
  return gauge;
}

struct Loaded {
  TaskSpec spec;
  Dataset data;
  Prompt prompt(size_t i) const { return render_prompt(spec, data, data.samples[i]); }
  std::string text(size_t i) const { return prompt(i).text + prompt(i).answer_prefix; }
  Texts answers(size_t i) const { return parse_gold(data.samples[i].gold, true).answers; }
  // What the official metric's name gives an answer to sample i.
  double score(size_t i, const std::string& generation) const {
    const auto& extractor = spec.extractors.front();
    return AnswerScorer().score(extractor, extract_answer(extractor, generation),
                                parse_gold(data.samples[i].gold, true));
  }
};

Loaded load(const std::string& name, int64_t n, const std::filesystem::path& data_dir = {}) {
  Loaded loaded{load_task(find_task(test::kTasks, name)), {}};
  loaded.data = load_dataset(loaded.spec, data_dir, gauge(1 << 20), n);
  return loaded;
}

// Files of the user's, in little: essays, and two sets of questions in the forms of SQuAD and HotpotQA.
class UserFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string essay;
    for (int i = 0; i < 3000; ++i) essay += "Sentence number " + std::to_string(i) + " is\nhere, Dr. Who. ";
    folder_.write("ruler/PaulGrahamEssays.json", nlohmann::json{{"text", essay}}.dump());
    nlohmann::json squad, hotpot = nlohmann::json::array();
    for (int a = 0; a < 6; ++a) {
      nlohmann::json paragraphs;
      for (int p = 0; p < 4; ++p) {
        const auto id = std::to_string(10 * a + p);
        paragraphs.push_back(
            {{"context", "Paragraph " + id + " says so. " + std::string(300, 'x')},
             {"qas",
              {{{"question", "What " + id + "?"},
                {"is_impossible", false},
                {"answers", {{{"text", "A" + id}}, {{"text", "B" + id}}}}},
               {{"question", "Why " + id + "?"}, {"is_impossible", true}, {"answers", nlohmann::json::array()}}}}});
      }
      squad["data"].push_back({{"paragraphs", paragraphs}});
    }
    for (int q = 0; q < 40; ++q) {
      const auto id = std::to_string(q);
      nlohmann::json context;
      for (int d = 0; d < 10; ++d) {
        context.push_back({"T" + id + "." + std::to_string(d), {"First. ", "Second of " + id + "."}});
      }
      hotpot.push_back({{"question", "Which " + id + "?"}, {"answer", "yes " + id}, {"context", context}});
    }
    folder_.write("ruler/squad.json", squad.dump());
    folder_.write("ruler/hotpotqa.json", hotpot.dump());
  }
  Loaded load(const std::string& name, int64_t n) { return kvc::load(name, n, folder_.path()); }
  test::TempFolder folder_;
};

// What two steps of units take: lines of 89 bytes, needles, words with their numbers.
int64_t two_steps(const std::string& task, int64_t tokens) {
  const bool is_short = tokens < 4096;
  if (task == "fwe") return 2 * (tokens / 32) * 7 / 4 + 2;
  if (task == "cwe") return 2 * 10 * (is_short ? 1 : 3) * 16 / 4;
  if (task == "vt") return 2 * (is_short ? 5 : 10) * 90 / 4;
  if (task.starts_with("qa_")) return 2 * 10 * 350 / 4;
  if (task == "niah_multikey_3") return 2 * (is_short ? 5 : 25) * 130 / 4;
  const bool is_text = std::find(kInText.begin(), kInText.end(), task) != kInText.end();
  return is_text ? 2 * 500 * 8 / 4 : 2 * (is_short ? 5 : 25) * 90 / 4;
}

TEST_F(UserFiles, QuestionsAreNoLongerThanTheirLengthAndHardlyShorter) {
  Texts names = kSix;
  names.insert(names.end(), kInText.begin(), kInText.end());
  names.insert(names.end(), {"qa_1", "qa_2"});
  ASSERT_EQ(names.size(), 13u);
  for (const auto& name : names) {
    for (const auto& [label, tokens] : std::map<std::string, int64_t>{{"1k", 1024}, {"4k", 4096}, {"16k", 16384}}) {
      if (name == "cwe" && label == "1k") continue;  // of four bytes a token the example alone is too long
      const auto loaded = load("ruler/" + name + "/" + label, 20);
      ASSERT_EQ(loaded.data.samples.size(), 20u) << name;
      for (size_t i = 0; i < 20; ++i) {
        const auto n = gauge(0).n_tokens(loaded.text(i)) + loaded.spec.max_new_tokens;
        EXPECT_LE(n, tokens) << name << " " << i;
        EXPECT_GT(n, tokens - two_steps(name, tokens)) << name << " " << i;
      }
    }
  }
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(UserFiles, EveryValueOfANeedleStandsOnce) {
  const std::map<std::string, size_t> n_needles = {
      {"niah_single_1", 1},   {"niah_single_2", 1},   {"niah_single_3", 1},   {"niah_multikey_1", 4},
      {"niah_multikey_2", 1}, {"niah_multikey_3", 1}, {"niah_multivalue", 4}, {"niah_multiquery", 4}};
  for (const auto& [name, n] : n_needles) {
    const auto loaded = load("ruler/" + name + "/4k", 50);
    for (size_t i = 0; i < 50; ++i) {
      const auto text = loaded.text(i);
      std::smatch match;
      std::set<std::string> keys, values;
      size_t n_found = 0;
      const std::regex needle("One of the special magic (numbers|uuids) for ([^ ]+) is: ([^ ]+)\\.");
      for (auto rest = text; std::regex_search(rest, match, needle); rest = match.suffix()) {
        ++n_found;
        keys.insert(match[2]);
        EXPECT_TRUE(values.insert(match[3]).second) << name;
      }
      const bool has_others = name == "niah_multikey_2" || name == "niah_multikey_3";
      if (has_others) EXPECT_GT(n_found, 50u);
      if (!has_others) EXPECT_EQ(n_found, n) << name;
      if (name != "niah_multivalue") EXPECT_EQ(keys.size(), n_found) << name;
      for (const auto& answer : loaded.answers(i)) EXPECT_EQ(count(text, answer), 1u) << name;
      EXPECT_EQ(loaded.answers(i).size(), name == "niah_multivalue" || name == "niah_multiquery" ? 4u : 1u);
    }
  }
}

// A needle stands at one of 40 depths, each as likely: chi squared of 39 degrees of freedom is below 72.1 in 999 of
// 1,000 draws.
TEST_F(UserFiles, NeedlesStandAtFortyDepthsAllAlike) {
  for (const char* name : {"niah_single_2", "niah_multivalue"}) {
    const auto loaded = load(std::string("ruler/") + name + "/4k", 500);
    std::map<int, double> n_of_depth;
    double n = 0;
    for (size_t i = 0; i < 500; ++i) {
      const auto text = loaded.data.samples[i].fields.at("context");
      const std::regex needle("One of the special magic numbers for [^ ]+ is: [0-9]+\\.");
      const auto bare = std::regex_replace(text, needle, "");
      const auto n_sentences = split_sentences(split_words(bare)).size();
      std::smatch match;
      size_t n_before = 0;
      for (auto rest = text; std::regex_search(rest, match, needle); rest = match.suffix()) {
        n_before += split_sentences(split_words(match.prefix().str())).size();
        int depth = -1;
        for (int j = 0; j < 40; ++j) {
          const auto percent = std::nearbyint(100.0 * j / 39);
          if (n_before == static_cast<size_t>(static_cast<double>(n_sentences) * (percent / 100))) depth = j;
        }
        ASSERT_GE(depth, 0) << name << " " << i << ": " << n_before << " of " << n_sentences;
        ++n_of_depth[depth];
        ++n;
      }
    }
    EXPECT_EQ(n_of_depth.size(), 40u);
    double chi2 = 0;
    for (const auto& [depth, found] : n_of_depth) chi2 += (found - n / 40) * (found - n / 40) / (n / 40);
    EXPECT_LT(chi2, 72.1) << name;
  }
}

// Answers as a program that only reads the prompt finds them.
Texts found_needles(const std::string& prompt) {
  std::smatch asked, match;
  EXPECT_TRUE(std::regex_search(
      prompt, asked, std::regex("for (([^ ,]+)(, ([^ ,]+))*(, and ([^ ,]+))?) mentioned in the provided text\\?")));
  auto list = asked[1].str();
  list = std::regex_replace(std::regex_replace(list, std::regex(", and "), " "), std::regex(", "), " ");
  Texts found;
  for (const auto& key : split_words(list)) {
    const std::regex needle("One of the special magic (numbers|uuids) for " + key + " is: ([0-9a-f-]+)\\.");
    for (auto rest = prompt; std::regex_search(rest, match, needle); rest = match.suffix()) found.push_back(match[2]);
  }
  return found;
}

Texts found_variables(const std::string& prompt) {
  std::smatch match;
  const auto question = prompt.substr(prompt.rfind("Memorize and track"));
  EXPECT_TRUE(std::regex_search(question, match, std::regex("assigned the value ([0-9]+) in")));
  const auto value = match[1].str();
  std::set<std::string> held;
  Texts found;
  std::istringstream lines(question);
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, match, std::regex("VAR ([A-Z]+) = (VAR )?([0-9A-Z]+) ?"))) continue;
    if (match[3] != value && !held.contains(match[3])) continue;
    held.insert(match[1]);
    found.push_back(match[1]);
  }
  return found;
}

Texts most_frequent(const Texts& words, size_t n) {
  std::map<std::string, int> counts;
  for (const auto& word : words) ++counts[word];
  Texts names;
  for (const auto& [word, count] : counts) names.push_back(word);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return counts[a] > counts[b]; });
  names.resize(n);
  return names;
}

Texts found_common(const std::string& prompt) {
  const auto list = prompt.substr(prompt.rfind("Below is a numbered list"));
  Texts words;
  std::smatch match;
  for (auto rest = list; std::regex_search(rest, match, std::regex("[0-9]+\\. ([a-z]+)")); rest = match.suffix()) {
    words.push_back(match[1]);
  }
  return most_frequent(words, 10);
}

Texts found_coded(const std::string& prompt) {
  const auto begin = prompt.find("coded words. ") + 13;
  auto words = split_words(prompt.substr(begin, prompt.find("\nQuestion:") - begin));
  words.erase(std::remove(words.begin(), words.end(), "..."), words.end());
  return most_frequent(words, 3);
}

std::string joined(const Texts& texts) {
  std::string all;
  for (const auto& text : texts) all += text + " ";
  return all;
}

TEST_F(UserFiles, AProgramThatReadsThePromptAnswersEverything) {
  for (const char* length : {"2k", "8k"}) {
    for (auto names : {kSix, kInText}) {
      for (const auto& name : names) {
        const auto loaded = load("ruler/" + name + "/" + length, 20);
        for (size_t i = 0; i < 20; ++i) {
          const auto text = loaded.text(i);
          const auto found = name == "vt"    ? found_variables(text)
                             : name == "cwe" ? found_common(text)
                             : name == "fwe" ? found_coded(text)
                                             : found_needles(text);
          EXPECT_EQ(loaded.score(i, joined(found)), 1) << name << "/" << length << " " << i << ": " << joined(found);
          EXPECT_EQ(found.size(), loaded.answers(i).size());
        }
      }
    }
  }
}

// One that names another needle is right no more often than one in as many as there are.
TEST(MadeNeedles, AGuessAmongThemIsWrong) {
  const auto loaded = load("ruler/niah_multikey_2/4k", 200);
  double right = 0;
  for (size_t i = 0; i < 200; ++i) {
    std::smatch match;
    const auto text = loaded.text(i);
    ASSERT_TRUE(std::regex_search(text, match, std::regex("is: ([0-9]+)\\.")));
    right += loaded.score(i, match[1]);
  }
  EXPECT_LE(right, 8);  // 200 guesses among some 150 needles: more than 8 right ones have probability 1e-4
}

TEST_F(UserFiles, DocumentsOfAQuestionAreAmongThoseShownAndUnanswerableOnesAreNotAsked) {
  const auto squad = load("ruler/qa_1/1k", 500);
  ASSERT_EQ(squad.data.samples.size(), 24u);
  EXPECT_EQ(squad.data.n_samples, 24);
  for (size_t i = 0; i < 24; ++i) {
    const auto id = std::to_string(10 * (i / 4) + i % 4);
    EXPECT_EQ(squad.data.samples[i].fields.at("query"), "What " + id + "?");
    EXPECT_EQ(squad.answers(i), (Texts{"A" + id, "B" + id}));
    EXPECT_EQ(count(squad.text(i), "Paragraph " + id + " says so."), 1u);
    for (int p = 0; p < 4; ++p) {  // of the same article before any other's
      EXPECT_EQ(count(squad.text(i), "Paragraph " + std::to_string(10 * (i / 4) + p) + " says"), 1u);
    }
    EXPECT_EQ(squad.score(i, "it is b" + id), 1);
  }
  const auto hotpot = load("ruler/qa_2/2k", 500);
  ASSERT_EQ(hotpot.data.samples.size(), 40u);
  for (int d = 0; d < 10; ++d) {
    EXPECT_EQ(count(hotpot.text(7), "\nT7." + std::to_string(d) + "\nFirst. Second of 7."), 1u);
  }
  EXPECT_EQ(hotpot.text(7).find("Answer the question based on the given documents."), 0u);
  EXPECT_TRUE(hotpot.text(7).ends_with("\n\nQuestion: Which 7? Answer:"));
}

// Two lines of Python's rule: sum(r.lower() in pred.lower() for r in refs) / len(refs), and max(...).
double official(bool all, std::string pred, const Texts& refs) {
  const auto blank = [](char c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f); };
  const auto strip = [&](std::string s) {
    while (!s.empty() && blank(s.front())) s.erase(0, 1);
    while (!s.empty() && blank(s.back())) s.pop_back();
    return s;
  };
  const auto low = [](std::string s) {
    for (auto& c : s) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return s;
  };
  pred = strip(pred);
  for (auto& c : pred) c = c >= 0 && c < 32 ? '\n' : c;
  pred = strip(pred);
  double n = 0;
  for (const auto& ref : refs) n += low(pred).find(low(ref)) != std::string::npos;
  return all ? n / static_cast<double>(refs.size()) : n > 0;
}

TEST(MadeAnswers, ScoreAsTheOfficialMetricOn1000RandomOutputs) {
  auto all = load_task(find_task(test::kTasks, "ruler/cwe/4k")),
       part = load_task(find_task(test::kTasks, "ruler/qa_1/4k"));
  Random random(7);
  AnswerScorer scorer;
  const Texts pieces = {"1234567", "123", "4567", "Apple", "aPPle", "pie",  " ",
                        "\n",      "\t",  "\x1f", "\x02",  ", ",    "ABCDE"};
  int n_between = 0, n_zero = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string pred;
    for (auto n = random.below(9); n > 0; --n) pred += pieces[random.below(pieces.size())];
    Gold gold;
    for (auto n = 1 + random.below(5); n > 0; --n) {
      gold.answers.push_back(Texts{"1234567", "apple", "PIE", "abcde", "apple\tpie", "23"}[random.below(6)]);
    }
    for (const auto* spec : {&all, &part}) {
      const auto& extractor = spec->extractors[0];
      const auto score = scorer.score(extractor, extract_answer(extractor, pred), gold);
      EXPECT_DOUBLE_EQ(score, official(spec == &all, pred, gold.answers)) << pred;
      n_between += score > 0 && score < 1;
      n_zero += score == 0;
    }
  }
  EXPECT_GT(n_between, 100);
  EXPECT_GT(n_zero, 100);
}

// The generators' own numbers, written down once: a question must not change from one machine or version to the next.
TEST(MadeQuestions, AreTheSameEverywhereWhateverOtherQuestionsThereAre) {
  std::string all;
  for (const auto& name : kSix) {
    const auto few = load("ruler/" + name + "/2k", 2), more = load("ruler/" + name + "/2k", 5);
    EXPECT_EQ(few.text(1), more.text(1)) << name;
    EXPECT_EQ(few.data.dataset_sha256, more.data.dataset_sha256);
    EXPECT_EQ(spec_json(few.spec, few.data), spec_json(more.spec, more.data));
    EXPECT_EQ(few.data.n_samples, 500);
    for (size_t i = 0; i < 5; ++i) all += more.text(i) + "\n";
  }
  EXPECT_EQ(sha256_hex(all), "6951b5de84d74bca16bd9b29fc65ca4fee0a271887215175b583661f1cc0c891");
}

TEST(MadeQuestions, OfOtherWordsOrAnotherLengthHaveAnotherHash) {
  test::TempFolder folder;
  const auto task = [&](const std::string& units) {
    folder.write("tasks/s/t.yaml",
                 "version: 1\nsummary: s\ndata: {made: {kind: needles, units: " + units +
                     ", samples: 3, needle: \"{key} {value}.\", keys: {words: [{file: w.txt, root: task}]}, values: "
                     "{digits: 3}, filler: {line: x}}}\nlike: ruler/fwe/1k\nfields: {context: context}\n"
                     "gold: {from: answers, list: true}\nprompt: {template: \"{context}\"}\n");
    return load_task(folder.path() / "tasks/s/t.yaml");
  };
  std::filesystem::create_directories(folder.path() / "tasks/ruler/scoring");
  for (const char* file : {"ruler/fwe.yaml", "ruler/niah_single_1.yaml", "ruler/scoring/all.yaml"}) {
    std::filesystem::copy_file(test::kTasks / file, folder.path() / "tasks" / file);
  }
  folder.write("tasks/s/w.txt", "one two");
  const auto first = load_dataset(task("5"), {});
  folder.write("tasks/s/w.txt", "one three");
  EXPECT_NE(load_dataset(task("5"), {}).dataset_sha256, first.dataset_sha256);
  folder.write("tasks/s/w.txt", "one two");
  EXPECT_EQ(load_dataset(task("5"), {}).dataset_sha256, first.dataset_sha256);
  EXPECT_NE(load_dataset(task("6"), {}).dataset_sha256, first.dataset_sha256);
  EXPECT_EQ(first.samples.size(), 3u);
}

TEST(MadeQuestions, LengthsThatAModelHasNotAreRefused) {
  const auto spec = load_task(find_task(test::kTasks, "ruler/fwe/4k"));
  const auto message = [&](const PromptGauge& gauge) {
    return test::message_of([&] { load_dataset(spec, {}, gauge, 1); });
  };
  EXPECT_NE(message({}).find("error: the prompts are made of 4096 tokens, and no model says what a token is"),
            std::string::npos);
  EXPECT_NE(message(gauge(2048)).find("error: data.made.tokens is 4096, and the model's context has 2048"),
            std::string::npos);
  auto limited = gauge(4096);
  limited.max_prompt_tokens = 2560;
  EXPECT_NE(message(limited).find("error: prompts of 4046 tokens are made, and max_prompt_tokens is 2560"),
            std::string::npos);
  auto bytes = gauge(1 << 20);
  bytes.n_prompt_tokens = [](const Prompt& prompt) { return static_cast<int64_t>(prompt.text.size()) + 4096; };
  EXPECT_NE(message(bytes).find("error: data.made.tokens is 4096, and the shortest prompt has "), std::string::npos);
  EXPECT_EQ(count_samples(spec, {}), 500);
}

// 3 values, of which the asked one takes one: 2 other needles.
TEST(MadeNeedles, OthersEndWhereKeysOrValuesDo) {
  test::TempFolder folder;
  const auto load = [&](const std::string& made) {
    std::filesystem::create_directories(folder.path() / "tasks/ruler/scoring");
    for (const char* file : {"ruler/fwe.yaml", "ruler/niah_single_1.yaml", "ruler/scoring/all.yaml"}) {
      const auto kept = std::filesystem::copy_options::overwrite_existing;
      std::filesystem::copy_file(test::kTasks / file, folder.path() / "tasks" / file, kept);
    }
    folder.write("tasks/s/w.txt", "one two three");
    folder.write(
        "tasks/s/t.yaml",
        "version: 1\nsummary: s\ndata: {made: {kind: needles, samples: 1, needle: \"{key} {value}.\", keys: uuids, "
        "values: {words: [{file: w.txt, root: task}]}, filler: {others: needles}, " +
            made +
            "}}\nlike: ruler/fwe/1k\nfields: {context: context}\nmax_new_tokens: 1\n"
            "prompt: {template: \"{context}\"}\n");
    return load_dataset(load_task(folder.path() / "tasks/s/t.yaml"), {}, gauge(1 << 20))
        .samples[0]
        .fields.at("context");
  };
  const auto two = load("tokens: 31");
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 1) << two;
  EXPECT_NE(test::message_of([&] { load("tokens: 500"); }).find("and there is text for a prompt of "),
            std::string::npos);
  EXPECT_NE(test::message_of([&] { load("tokens: 500, step: 3"); })
                .find("3 other needles at least, and there are keys and "
                      "values for 2"),
            std::string::npos);
}

class BadTask : public testing::Test {
 protected:
  std::string message(const std::string& made, const std::string& prompt = "{template: \"{context}\"}") {
    return test::message_of([&] {
      load_task(folder_.write(
          "tasks/s/t.yaml", "version: 1\nsummary: s\ndata: {made: {" + made +
                                "}}\nfields: {context: context}\ngold: {from: answers, list: true}\nprompt: " + prompt +
                                "\nmax_new_tokens: 1\n"));
    });
  }
  test::TempFolder folder_;
  const std::string needle_ = "samples: 1, keys: uuids, values: uuids, ";
};

TEST_F(BadTask, NamesWhatIsWrongInOneLine) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message("kind: needle"), "data.made.kind is 'needle' (did you mean 'needles'?), allowed: needles, ");
  has(message("kind: needles, tokens: 5, units: 5"), "data.made has both tokens and units, expected one of them");
  has(message("kind: needles, samples: 1"), "missing key 'units' in data.made");
  has(message("kind: needles, units: 5, needle: \"{key}\", " + needle_ + "filler: {line: x}"),
      "data.made.needle does not name {value}");
  has(message("kind: needles, units: 5, needle: \"{key} {value} {x}\", " + needle_ + "filler: {line: x}"),
      "unknown template variable 'x'");
  has(message("kind: needles, units: 5, n_queries: 2, needle: \"{key} {value}\", " + needle_ + "filler: {line: x}"),
      "data.made.n_queries is '2', expected");
  has(message("kind: needles, units: 5, n_values: 41, needle: \"{key} {value}\", " + needle_ +
              "filler: {text: {file: a, root: task}}"),
      "41 needles in a text, which has 40 places for them");
  has(message("kind: coded_words, units: 5, samples: 1, noise: x, letters: 3, asked: 3, tokens_per_word: 9, more: 1"),
      "more");
  const std::string good = "kind: coded_words, units: 9, samples: 1, noise: x, letters: 3, asked: 3, vocabulary: 9";
  has(message(good, "{template: \"{context}\", answer_prefix: \"{y}\"}"), "unknown template variable 'y'");
  has(message(good, "{template: \"{context}\", truncate: left, answer_prefix: \"y\"}"),
      "a prompt with a prefix of its answer has prompt.truncate: refuse");
}

}  // namespace
}  // namespace kvc
