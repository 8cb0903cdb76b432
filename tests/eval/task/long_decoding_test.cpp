// Procedures with long answers: what is asked for follows from the prompt alone, by programs that share no line with
// the makers; and what a partial answer is worth.
#include <gtest/gtest.h>

#include <map>
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

Texts lines_of(const std::string& text) {
  std::istringstream in(text);
  Texts lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

double score(const TaskSpec& spec, const std::string& extractor, const std::string& text, const std::string& gold) {
  const auto& e = *find_extractor(spec, extractor);
  return AnswerScorer().score(e, extract_answer(e, text), {{gold}, {}});
}

// "From A a bus goes to B." of the last list of the prompt.
TEST(LongDecoding, TheWayFollowsFromTheOneLineThatLeavesEachPlace) {
  for (const auto& [label, n_steps] : std::map<std::string, size_t>{{"8", 8}, {"128", 128}}) {
    const auto spec = load_task(find_task(test::kTasks, "long_decoding/route/" + label));
    const auto data = load_dataset(spec, {}, {}, 20);
    ASSERT_EQ(data.samples.size(), 20u);
    EXPECT_EQ(data.n_samples, 200);
    for (const auto& sample : data.samples) {
      const auto prompt = render_prompt(spec, data, sample).text;
      const auto lines = lines_of(prompt);
      std::map<std::string, std::pair<std::string, std::string>> from;
      const auto begin = std::find(lines.begin(), lines.end(), "Take the plane from fox gate to salt bay.");
      for (auto line = begin; line != lines.end(); ++line) {
        const auto words = split_words(*line);
        if (words.size() != 9 || words[0] != "From") continue;  // From x y a bus goes to z w.
        const bool is_new =
            from.emplace(words[1] + " " + words[2], std::pair(words[4], words[7] + " " + words[8])).second;
        EXPECT_TRUE(is_new) << *line;
      }
      EXPECT_EQ(from.size(), 2 * n_steps + 1);
      const auto asked = split_words(lines.back());  // The way from x y to z w, step by step:
      auto place = asked[3] + " " + asked[4];
      const auto end = asked[6] + " " + asked[7].substr(0, asked[7].size() - 1) + ".";
      std::string way;
      for (size_t i = 0; i < n_steps; ++i) {
        const auto [by, to] = from.at(place);
        way += "Take the " + by + " from " + place + " to " + to + "\n";
        EXPECT_EQ(to == end, i + 1 == n_steps) << way;
        place = to.substr(0, to.size() - 1);
      }
      EXPECT_EQ(way, sample.gold + "\n");
      EXPECT_EQ(score(spec, "lines", way, sample.gold), 1);
      EXPECT_EQ(score(spec, "whole", way, sample.gold), 1);
    }
  }
}

// The search of the prompt's rule, over a stack instead of calls.
struct State {
  std::vector<int64_t> numbers;
  size_t next = 0;  // 4 * pair + sign
};

std::string search(const std::vector<int64_t>& numbers, int64_t target) {
  std::string text;
  std::vector<State> stack{{numbers}};
  while (!stack.empty()) {
    auto& state = stack.back();
    const auto n = state.numbers.size();
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = i + 1; j < n; ++j) pairs.emplace_back(i, j);
    }
    if (state.next == 4 * pairs.size()) {
      stack.pop_back();
      continue;
    }
    const auto [i, j] = pairs[state.next / 4];
    const auto sign = state.next++ % 4;
    const auto x = std::max(state.numbers[i], state.numbers[j]), y = std::min(state.numbers[i], state.numbers[j]);
    if (sign == 3 && (y == 0 || x % y != 0)) continue;
    const std::vector<int64_t> results = {x + y, x - y, x * y, y == 0 ? 0 : x / y};
    const auto result = results[sign];
    text += std::to_string(x) + " " + "+-*/"[sign] + " " + std::to_string(y) + " = " + std::to_string(result) + ":";
    if (n == 2) {
      text += result == target ? " yes" : " no\n";
      if (result == target) return text;
      continue;
    }
    if (result > 2000) {
      text += " too large\n";
      continue;
    }
    State after{{result}};
    for (size_t k = 0; k < n; ++k) {
      if (k != i && k != j) after.numbers.push_back(state.numbers[k]);
    }
    for (const auto number : after.numbers) text += " " + std::to_string(number);
    text += "\n";
    stack.push_back(after);
  }
  return "none";
}

TEST(LongDecoding, TheSearchIsThatOfTheRuleAlsoInTheExamples) {
  for (const auto& [label, n_lines] : std::map<std::string, size_t>{{"16", 16}, {"64", 64}, {"256", 256}}) {
    const auto spec = load_task(find_task(test::kTasks, "long_decoding/countdown/" + label));
    const auto data = load_dataset(spec, {}, {}, 20);
    std::set<std::string> asked;
    for (const auto& sample : data.samples) {
      std::vector<int64_t> numbers;
      for (const auto& word : split_words(sample.fields.at("numbers"))) numbers.push_back(std::stol(word));
      ASSERT_EQ(numbers.size(), 4u);
      EXPECT_EQ(search(numbers, std::stol(sample.fields.at("target"))), sample.gold);
      const auto n = lines_of(sample.gold).size();
      EXPECT_LE(n, n_lines);
      EXPECT_GE(4 * n, 3 * n_lines);
      asked.insert(sample.fields.at("numbers") + " " + sample.fields.at("target"));
    }
    EXPECT_EQ(asked.size(), 20u);
    const auto examples = data.samples[0].fields.at("examples");
    EXPECT_EQ(examples, data.samples[19].fields.at("examples"));
    size_t n_examples = 0;
    for (size_t at = 0; (at = examples.find("Numbers: ", at)) != std::string::npos; ++n_examples) {
      const auto lines = lines_of(examples.substr(at, examples.find("\n\n", at) - at));
      std::vector<int64_t> numbers;
      for (const auto& word : split_words(lines[0].substr(9))) numbers.push_back(std::stol(word));
      std::string found;
      for (size_t i = 3; i < lines.size(); ++i) found += (i == 3 ? "" : "\n") + lines[i];
      EXPECT_EQ(search(numbers, std::stol(lines[1].substr(8))), found);
      at += 9;
    }
    EXPECT_EQ(n_examples, 2u);
  }
}

TEST(LongDecoding, AListIsOfWordsThatAreThereOnceAndIsItsOwnAnswer) {
  const auto spec = load_task(find_task(test::kTasks, "long_decoding/recite/200"));
  const auto data = load_dataset(spec, {}, {}, 20);
  ASSERT_EQ(data.samples.size(), 20u);
  for (const auto& sample : data.samples) {
    const auto words = split_words(sample.gold);
    EXPECT_EQ(words.size(), 1600u);
    EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size());
    EXPECT_EQ(lines_of(sample.gold).size(), 200u);
    EXPECT_NE(render_prompt(spec, data, sample).text.find("\n" + sample.gold + "\n"), std::string::npos);
  }
  EXPECT_NE(data.samples[0].gold, data.samples[1].gold);
}

TEST(LongDecoding, AListOfMoreWordsThanThereAreIsRefused) {
  test::TempFolder folder;
  folder.write("w.txt", "one two three two");
  const auto list = [&](int n_lines) {
    const auto made = concat("kind: lists, units: ", n_lines, ", samples: 1, words: [{file: w.txt, root: task}]");
    const auto file = folder.write("t.yaml", concat("version: 1\nsummary: s\ndata: {made: {", made,
                                                    "}}\nfields: {context: context}\ngold: {from: answer}\n"
                                                    "prompt: {template: \"{context}\"}\nmax_new_tokens: 1\n"
                                                    "scoring: {file: s.yaml, root: task}\n"));
    return load_dataset(load_task(file), {}, {}).samples[0].gold;
  };
  folder.write("s.yaml", read_text(test::kTasks / "long_decoding/scoring/lines.yaml"));
  EXPECT_EQ(lines_of(list(3)).size(), 3u);
  EXPECT_NE(
      test::message_of([&] { list(4); }).find("4 lines of 1 words are asked for, and there are 3 different words"),
      std::string::npos);
}

// The share of the lines before the first that is not the gold's, counted line by line.
TEST(LongDecoding, AnAnswerIsWorthItsLinesBeforeTheFirstWrongOne) {
  const auto spec = load_task(find_task(test::kTasks, "long_decoding/route/8"));
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    Texts gold, answer;
    for (auto n = 1 + random.below(6); n > 0; --n)
      gold.push_back(std::string(1, static_cast<char>('a' + random.below(2))));
    answer = gold;
    for (auto& line : answer) {
      if (random.below(5) == 0) line = "wrong";
    }
    answer.resize(random.below(answer.size() + 3), "more");
    size_t n_right = 0;
    while (n_right < gold.size() && n_right < answer.size() && gold[n_right] == answer[n_right]) ++n_right;
    std::string gold_text, answer_text;
    for (const auto& line : gold) gold_text += (gold_text.empty() ? "" : "\n") + line;
    for (const auto& line : answer) answer_text += line + " \n";
    EXPECT_DOUBLE_EQ(score(spec, "lines", answer_text, gold_text),
                     static_cast<double>(n_right) / static_cast<double>(gold.size()))
        << answer_text << "|" << gold_text;
    EXPECT_LE(score(spec, "whole", answer_text, gold_text), score(spec, "lines", answer_text, gold_text));
  }
}

TEST(LongDecoding, IsTheSameEverywhere) {
  std::string all;
  for (const char* name : {"route/32", "countdown/64"}) {
    const auto spec = load_task(find_task(test::kTasks, std::string("long_decoding/") + name));
    const auto data = load_dataset(spec, {}, {}, 5);
    for (const auto& sample : data.samples) all += render_prompt(spec, data, sample).text + sample.gold + "\n";
  }
  EXPECT_EQ(sha256_hex(all), "c549a640dad7709eb8f64b7075367f5b9eb7a62aef49ee17bd19f1c3e05f7765");
}

}  // namespace
}  // namespace kvc
