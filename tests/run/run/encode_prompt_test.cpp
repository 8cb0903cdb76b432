// Prompts as token ids: their lengths with real tokenizers, what is cut, and what of a choice is scored.
#include "prompt/encode_prompt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "kvc/check.h"
#include "support/message_of.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace kvc {
namespace {

const std::optional<ChatTemplate> kNoChat;

std::optional<ChatTemplate> bare_llama2() {
  return choose_chat_template({.form = "llama2_bare"}, test::kCheckout / "models" / "demo", test::kCheckout);
}

using Ids = std::vector<int64_t>;

class RealPrompts : public testing::Test {
 protected:
  void SetUp() override {
    const char* data_dir = std::getenv("KVC_DATA");
    if (!data_dir) GTEST_SKIP() << "KVC_DATA is not set: the folder that holds the benchmarks and tokenizers";
    data_dir_ = data_dir;
    llama2_.emplace(Tokenizer::load(data_dir_ / "tokenizers" / "llama2"));
  }
  // Sum and number of the prompts' tokens over all samples.
  std::pair<int64_t, int64_t> count(const std::string& name) {
    const auto spec = load_task(find_task(test::kCheckout / "tasks", name));
    const auto data = load_dataset(spec, data_dir_);
    std::pair<int64_t, int64_t> sum{0, 0};
    for (const auto& sample : data.samples) {
      const auto encoded = encode_prompt(spec, data, sample, *llama2_, {&kNoChat, "", 1 << 20, std::nullopt});
      EXPECT_EQ(encoded.ids.front(), 1);
      EXPECT_EQ(std::count(encoded.ids.begin(), encoded.ids.end(), 1), 1);
      EXPECT_EQ(encoded.n_tokens_before, static_cast<int64_t>(encoded.ids.size()));
      sum.first += static_cast<int64_t>(encoded.ids.size());
      longest_ = std::max(longest_, static_cast<int64_t>(encoded.ids.size()));
      ++sum.second;
    }
    return sum;
  }
  double mean(const std::string& name) {
    const auto [sum, n] = count(name);
    return static_cast<double>(sum) / static_cast<double>(n);
  }
  std::filesystem::path data_dir_;
  std::optional<Tokenizer> llama2_;
  int64_t longest_ = 0;
};

// GEAR's Table 3 says 900; 900.4 with a maximum of 1023 were measured with the Python tokenizer.
TEST_F(RealPrompts, Gsm8kPromptsHave900TokensInTheMean) {
  EXPECT_NEAR(mean("gsm8k/cot8"), 900.4, 0.05);
  EXPECT_EQ(longest_, 1023);
}

TEST_F(RealPrompts, AquaPromptsHave1603TokensInTheMean) {
  EXPECT_NEAR(mean("aqua/cot8"), 1603, 0.5);
  EXPECT_EQ(longest_, 1683);
}

// GEAR's Table 3 says 1021.
TEST_F(RealPrompts, BbhPromptsHave1021TokensInTheMean) {
  int64_t sum = 0, n = 0;
  for (const auto& id : find_tasks(test::kCheckout / "tasks")) {
    if (!id.name().starts_with("bbh/")) continue;
    const auto counts = count(id.name());
    sum += counts.first;
    n += counts.second;
  }
  EXPECT_EQ(n, 6511);
  EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(n), 1021.5, 0.05);
  EXPECT_EQ(longest_, 2611);
}

// The public script: half of the limit from either end, each half decoded by itself, joined, and encoded again.
TEST_F(RealPrompts, LongPromptsLoseTheirMiddle) {
  const auto spec = load_task(find_task(test::kCheckout / "tasks", "longbench/passage_retrieval_zh"));
  const auto data = load_dataset(spec, data_dir_);
  const auto& sample = data.samples.front();
  const auto full = llama2_->encode(render_prompt(spec, data, sample).text, true);
  ASSERT_GT(full.size(), 3501u);
  const auto cut = encode_prompt(spec, data, sample, *llama2_, {&kNoChat, "", 4096, 3501});  // odd: one token less
  const auto text = llama2_->decode(Ids(full.begin(), full.begin() + 1750), true) +
                    llama2_->decode(Ids(full.end() - 1750, full.end()), true);
  EXPECT_EQ(cut.text, text);
  EXPECT_EQ(cut.ids, llama2_->encode(text, true));
  EXPECT_EQ(cut.n_tokens_before, static_cast<int64_t>(full.size()));
  // The model's context is a limit, too: 4096 less the new tokens.
  const auto by_context = encode_prompt(spec, data, sample, *llama2_, {&kNoChat, "", 4096, std::nullopt});
  EXPECT_NEAR(static_cast<double>(by_context.ids.size()), 4096 - 32, 8);
}

// ruler.md's bounds, counted with the tokenizer itself: no longer than the length, and hardly shorter.
TEST_F(RealPrompts, MadeQuestionsAreAsLongAsTheirTaskSays) {
  const auto llama3 = Tokenizer::load(data_dir_ / "tokenizers" / "llama3");
  for (const Tokenizer* tokenizer : std::vector<const Tokenizer*>{&*llama2_, &llama3}) {
    for (const char* name : {"niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe"}) {
      for (const auto& [label, tokens] : std::map<std::string, int64_t>{{"1k", 1024}, {"4k", 4096}, {"16k", 16384}}) {
        const PromptSettings settings{&kNoChat, "", 1 << 20, std::nullopt};
        const auto spec = load_task(find_task(test::kCheckout / "tasks", concat("ruler/", name, "/", label)));
        const auto data = load_dataset(spec, {}, prompt_gauge(*tokenizer, settings), 5);
        for (const auto& sample : data.samples) {
          const auto encoded = encode_prompt(spec, data, sample, *tokenizer, settings);
          const auto prompt = render_prompt(spec, data, sample);
          EXPECT_EQ(encoded.ids, tokenizer->encode(prompt.text + prompt.answer_prefix, true));
          const auto n = static_cast<int64_t>(encoded.ids.size()) + spec.max_new_tokens;
          EXPECT_LE(n, tokens) << spec.name;
          EXPECT_GT(n, tokens - tokens / 6) << spec.name;
        }
      }
    }
  }
}

// A task in a folder of its own, for the demo model's tokenizer.
class SmallPrompts : public testing::Test {
 protected:
  EncodedPrompt encode(const std::string& task, const std::string& line, int64_t context,
                       std::optional<int64_t> max_tokens = std::nullopt) {
    folder_.write("tasks/s/d.jsonl", line + "\n");
    folder_.write("tasks/s/shots.txt", "Sam has the ring. ");
    spec_ = load_task(
        folder_.write("tasks/s/t.yaml", "version: 1\nsummary: s\ndata: {file: d.jsonl, root: task}\n" + task));
    data_ = load_dataset(spec_, {});
    return encode_prompt(spec_, data_, data_.samples.front(), tokenizer_,
                         {&kNoChat, "", context, max_tokens, question_after_});
  }
  static std::string choice_task(const std::string& prompt, const std::string& choices) {
    return "kind: choices\nfields: {q: q}\ngold: {from: a}\nprompt: " + prompt + "\nchoices: " + choices + "\n";
  }
  std::string message(const std::string& task, const std::string& line, int64_t context) {
    return test::message_of([&] { encode(task, line, context); });
  }
  // The text of the question's tokens.
  std::string question(const EncodedPrompt& encoded) const {
    return tokenizer_.decode(Ids(encoded.ids.end() - encoded.n_question_tokens, encoded.ids.end()), false);
  }
  test::TempFolder folder_;
  bool question_after_ = false;
  Tokenizer tokenizer_ = Tokenizer::load(test::kCheckout / "models" / "demo");
  TaskSpec spec_;
  Dataset data_;
};

const char* const kLine = R"({"q": "Sam has the ring. Kim has the rope. Who has the rope?", "a": "0"})";
const std::string kTexts = "{texts: [\" Kim\", \" Sam has\"], scores: [acc]}";

// The last token of the context is given, so that the first scored token depends on what the caches hold.
TEST_F(SmallPrompts, TheContextsLastTokenIsReadThroughTheCache) {
  const auto encoded = encode(choice_task("{template: \"{q}\"}", kTexts), kLine, 4096);
  const auto context = tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope?", true);
  ASSERT_EQ(encoded.scored.size(), 1u);
  const auto& scored = encoded.scored[0];
  EXPECT_EQ(encoded.ids, context);
  EXPECT_EQ(scored.prompt_ids, Ids(context.begin(), context.end() - 1));
  EXPECT_EQ(scored.n_given, 1);
  const auto whole = tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope? Sam has", true);
  EXPECT_EQ(scored.continuations[1], Ids(whole.begin() + static_cast<std::ptrdiff_t>(context.size()) - 1, whole.end()));
}

TEST_F(SmallPrompts, BlanksAtTheContextsEndBelongToTheChoice) {
  const auto with = encode(choice_task("{template: \"{q}\\nA: \"}", "{texts: [Kim, Sam], scores: [acc]}"), kLine, 4096);
  const auto without =
      encode(choice_task("{template: \"{q}\\nA:\"}", "{texts: [\" Kim\", \" Sam\"], scores: [acc]}"), kLine, 4096);
  EXPECT_EQ(with.scored[0].prompt_ids, without.scored[0].prompt_ids);
  EXPECT_EQ(with.scored[0].continuations, without.scored[0].continuations);
}

TEST_F(SmallPrompts, AfterTheExemplarsTheWholeQuestionIsRead) {
  const auto task =
      choice_task("{exemplars: {file: shots.txt, root: task}, template: \"{exemplars}{q}\"}",
                  "{texts: [\" Kim\", \" Sam\"], scores: [mean_nll, mean_nll_calibrated], after_exemplars: "
                  "true, content_free: N/A}");
  const auto encoded = encode(task, kLine, 4096);
  ASSERT_EQ(encoded.scored.size(), 2u);
  EXPECT_EQ(encoded.scored[0].prompt_ids, tokenizer_.encode("Sam has the ring. ", true));
  const auto question = tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope?", false);
  EXPECT_EQ(encoded.scored[0].n_given, static_cast<int64_t>(question.size()));
  EXPECT_EQ(encoded.scored[1].prompt_ids, encoded.scored[0].prompt_ids);
  EXPECT_EQ(encoded.scored[1].n_given, static_cast<int64_t>(tokenizer_.encode("N/A", false).size()));
}

TEST_F(SmallPrompts, TheLastTokenIsTheOneChoiceOfALastTokenTask) {
  const auto encoded = encode(choice_task("{template: \"{q}\"}", "{last_token: true, scores: [greedy]}"), kLine, 4096);
  const auto ids = tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope?", true);
  ASSERT_EQ(encoded.scored[0].continuations.size(), 1u);
  EXPECT_EQ(encoded.scored[0].prompt_ids, Ids(ids.begin(), ids.end() - 2));
  EXPECT_EQ(encoded.scored[0].continuations[0], Ids(ids.end() - 2, ids.end()));
}

// lm-evaluation-harness: the context and the longest choice keep their last tokens.
TEST_F(SmallPrompts, ScoredTextsLoseTheirLeftEnd) {
  const auto all = encode(choice_task("{template: \"{q}\", truncate: left}", kTexts), kLine, 4096);
  const auto cut = encode(choice_task("{template: \"{q}\", truncate: left}", kTexts), kLine, 4096, 12);
  const int64_t n_longest = static_cast<int64_t>(all.scored[0].continuations[1].size()) - 1;
  EXPECT_EQ(static_cast<int64_t>(cut.ids.size()), 12 - n_longest);
  EXPECT_EQ(cut.ids, Ids(all.ids.end() - (12 - n_longest), all.ids.end()));
  EXPECT_EQ(cut.scored[0].continuations, all.scored[0].continuations);
  EXPECT_EQ(cut.n_tokens_before, static_cast<int64_t>(all.ids.size()));
}

TEST_F(SmallPrompts, WhatMayNotBeCutIsRefusedByItsLength) {
  const auto text = message(choice_task("{template: \"{q}\"}", kTexts), kLine, 10);
  EXPECT_EQ(text.find("the prompt has "), 0u) << text;
  EXPECT_NE(text.find(" tokens, allowed: 9, and the task does not let it be cut"), std::string::npos) << text;
}

const std::string kGenerate =
    "fields: {q: q}\ngold: {from: a}\nmax_new_tokens: 3\nmetric: accuracy\nextractors:\n  - {name: e, steps: [strip], "
    "compare: exact}\nextract_cases:\n"
    "  - {extractor: e, text: a, gold: a, answer: a, correct: true}\n  - {extractor: e, text: a, gold: a, answer: a, "
    "correct: true}\n"
    "  - {extractor: e, text: a, gold: a, answer: a, correct: true}\n  - {extractor: e, text: a, gold: a, answer: a, "
    "correct: true}\n"
    "  - {extractor: e, text: a, gold: a, answer: a, correct: true}\n  - {extractor: e, text: a, gold: a, answer: a, "
    "correct: true}\n";

TEST_F(SmallPrompts, WhatTheAnswerBeginsWithStandsBehindTheChatFormat) {
  const auto plain = encode(kGenerate + "prompt: {template: \"{q}\", answer_prefix: \" {q} Is\"}\n", kLine, 4096);
  EXPECT_TRUE(plain.text.ends_with("rope? Sam has the ring. Kim has the rope. Who has the rope? Is")) << plain.text;
  EXPECT_EQ(plain.ids, tokenizer_.encode(plain.text, true));
  EXPECT_EQ(plain.prompt.parts.back().text, plain.prompt.answer_prefix);
  const auto chat = bare_llama2();
  const PromptSettings settings{&chat, "", 4096, std::nullopt};
  const auto turn = encode_prompt(spec_, data_, data_.samples.front(), tokenizer_, settings);
  EXPECT_EQ(turn.text, render_turn(chat, "", plain.prompt.text).text + plain.prompt.answer_prefix);
  EXPECT_NE(turn.text, plain.text);
  EXPECT_EQ(prompt_gauge(tokenizer_, settings).n_prompt_tokens(plain.prompt), static_cast<int64_t>(turn.ids.size()));
}

TEST_F(SmallPrompts, PromptsAreCutOnTheSideThatTheTaskSays) {
  const auto ids = tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope?", true);
  const auto right = encode(kGenerate + "prompt: {template: \"{q}\", truncate: right}\n", kLine, 4096, 7);
  EXPECT_EQ(right.ids, Ids(ids.begin(), ids.begin() + 7));
  EXPECT_EQ(right.text, tokenizer_.decode(right.ids, true));
  const auto left = encode(kGenerate + "prompt: {template: \"{q}\", truncate: left, max_tokens: 5}\n", kLine, 4096);
  EXPECT_EQ(left.ids, Ids(ids.end() - 5, ids.end()));
  const auto by_context = encode(kGenerate + "prompt: {template: \"{q}\", truncate: right}\n", kLine, 10);
  EXPECT_EQ(by_context.ids, Ids(ids.begin(), ids.begin() + 7));
  EXPECT_NE(message(kGenerate + "prompt: {template: \"{q}\"}\n", kLine, 10), "no error");
}

const char* const kContextLine = R"({"q": "Sam has the ring. Kim has the rope.", "a": "0"})";

TEST_F(SmallPrompts, TheQuestionsTokensAreThoseBehindTheContextAsItIsEncodedAlone) {
  const auto task = kGenerate + "prompt: {template: \"{q} Who has the rope?\\nA:\", question: Who}\n";
  EXPECT_EQ(encode(task, kContextLine, 4096).n_question_tokens, 0);
  question_after_ = true;
  const auto encoded = encode(task, kContextLine, 4096);
  const auto context = tokenizer_.encode("Sam has the ring. Kim has the rope.", true);  // " Who" takes the blank
  EXPECT_EQ(encoded.ids, tokenizer_.encode("Sam has the ring. Kim has the rope. Who has the rope?\nA:", true));
  EXPECT_EQ(encoded.n_question_tokens, static_cast<int64_t>(encoded.ids.size() - context.size()));
  EXPECT_EQ(question(encoded), " Who has the rope?\nA:");
  const auto field = encode(kGenerate + "prompt: {template: \"What:{q}\", question: '{q}'}\n", kContextLine, 4096);
  EXPECT_EQ(tokenizer_.encode("What:", true).size() + static_cast<size_t>(field.n_question_tokens), field.ids.size());
}

TEST_F(SmallPrompts, ATokenOfBothSidesIsTheQuestions) {
  question_after_ = true;
  for (const char* const word : {"Sam hats", "have", "answer is", "the answer"}) {
    for (size_t i = 1; i < std::string(word).size(); ++i) {
      const auto before = std::string(word).substr(0, i), after = std::string(word).substr(i);
      if (after.front() == ' ') continue;  // YAML
      const auto encoded =
          encode(kGenerate + "prompt: {template: \"{q} " + before + after + "\", question: '" + after + "'}\n",
                 kContextLine, 4096);
      const auto n = static_cast<std::ptrdiff_t>(encoded.ids.size()) - encoded.n_question_tokens;
      EXPECT_TRUE(question(encoded).ends_with(after)) << question(encoded);
      // What is before them is as it is whatever the question, and with one token more it is not.
      const auto context = tokenizer_.encode("Sam has the ring. Kim has the rope. " + before, true);
      ASSERT_LE(n, static_cast<std::ptrdiff_t>(context.size()));
      EXPECT_TRUE(std::equal(encoded.ids.begin(), encoded.ids.begin() + n, context.begin()));
      EXPECT_TRUE(n == static_cast<std::ptrdiff_t>(context.size()) ||
                  encoded.ids[static_cast<size_t>(n)] != context[static_cast<size_t>(n)]);
    }
  }
}

TEST_F(SmallPrompts, TheChatFormatsEndAndTheAnswersBeginningAreReadWithTheQuestion) {
  question_after_ = true;
  encode(kGenerate + "prompt: {template: \"{q} Who has the rope? \", question: Who, answer_prefix: ' Who is'}\n",
         kContextLine, 4096);
  const auto chat = bare_llama2();
  const auto turn =
      encode_prompt(spec_, data_, data_.samples.front(), tokenizer_, {&chat, "", 4096, std::nullopt, true});
  EXPECT_EQ(question(turn), turn.text.substr(turn.text.find(" Who has the rope?")));
  EXPECT_TRUE(question(turn).ends_with("[/INST] Who is")) << question(turn);
}

TEST_F(SmallPrompts, WhatIsCutLeavesTheQuestionWholeOrIsRefused) {
  question_after_ = true;
  const auto task = [](const std::string& side) {
    return kGenerate + "prompt: {template: \"{q} Who has the rope?\", question: Who, truncate: " + side + "}\n";
  };
  const auto whole = encode(task("left"), kContextLine, 4096);
  const auto n = static_cast<int64_t>(whole.ids.size());
  for (const char* const side : {"left", "middle"}) {
    const auto cut = encode(task(side), kContextLine, 4096, n - 1);
    EXPECT_LT(cut.ids.size(), whole.ids.size()) << side;
    EXPECT_EQ(question(cut), " Who has the rope?") << side;
  }
  question_after_ = true;
  const auto refused = [&](const char* side, int64_t most) {
    return test::message_of([&] { encode(task(side), kContextLine, 4096, most); });
  };
  const std::string lost = "the prompt, cut to its limit, does not end with its question 'Who has the rope?'";
  EXPECT_EQ(refused("right", n - 1), lost);
  EXPECT_EQ(refused("middle", 4), lost);
  EXPECT_EQ(refused("left", 3), lost);
  EXPECT_EQ(refused("left", whole.n_question_tokens),
            concat("the prompt's ", whole.n_question_tokens, " tokens have ", whole.n_question_tokens,
                   " of the question, expected at least one of either side"));
}

TEST_F(SmallPrompts, ATaskThatDoesNotSayWhereItsQuestionBeginsIsRefused) {
  question_after_ = true;
  const auto text = message(kGenerate + "prompt: {template: \"{q}\"}\n", kLine, 4096);
  EXPECT_NE(text.find("t.yaml: task s/t does not say where its question begins: expected prompt.question"),
            std::string::npos)
      << text;
}

TEST_F(SmallPrompts, AQuestionBeyondTheTasksLimitIsLeftOutInWords) {
  const auto task = [](int limit) {
    return choice_task("{template: \"{q}\", truncate: refuse, max_tokens: " + std::to_string(limit) + "}",
                       "{texts: [\" a\", \" b\"], scores: [acc]}");
  };
  const std::string line = R"({"q": "Sam has the ring. Sam has the ring.", "a": "0"})";
  EXPECT_EQ(message(task(60), line, 4096), "no error");
  const auto refused = message(task(4), line, 4096);
  EXPECT_NE(refused.find("tokens, allowed: 4, and the task does not let it be cut"), std::string::npos) << refused;
}

}  // namespace
}  // namespace kvc
