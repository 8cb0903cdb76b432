// The tokenizer: facts from the tokenizers package (tests/data/model/make_tokenizer_golden.py), and refusals.
#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/message_of.h"
#include "support/places.h"
#include "support/processor_seconds.h"
#include "support/temp_folder.h"
#include "text/files.h"
#include "text/json_reader.h"
#include "tokenizer_steps/byte_level.h"
#include "tokenizer_steps/tokenizer_regex.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class GoldenTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, GivesTheReferencesIdsAndTexts) {
  const auto tokenizer = kvc::Tokenizer::load(kvc::test::kModelData / GetParam());
  const auto golden = kvc::read_json(kvc::test::kModelData / "tokenizer_golden.json").at(GetParam());
  EXPECT_EQ(tokenizer.vocab_size(), golden.at("vocab_size").get<int64_t>());
  ASSERT_GT(golden.at("strings").size(), 50u);
  for (const auto& one : golden.at("strings")) {
    const auto text = one.at("text").get<std::string>();
    const auto ids = tokenizer.encode(text, true);
    EXPECT_EQ(ids, one.at("ids").get<std::vector<int64_t>>()) << text;
    EXPECT_EQ(tokenizer.decode(ids, true), one.at("decoded").get<std::string>());
    if (one.contains("all")) {
      EXPECT_EQ(tokenizer.decode(ids, false), one.at("all").get<std::string>());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Of, GoldenTokenizer, testing::Values("demo_like", "spm", "added", "gpt2", "pieces"),
                         [](const auto& info) { return info.param; });

json small_tokenizer() { return kvc::read_json(kvc::test::kModelData / "demo_like" / "tokenizer.json"); }

kvc::Tokenizer load(const json& file) {
  const TempFolder dir;
  dir.write("tokenizer.json", file.dump());
  return kvc::Tokenizer::load(dir.path());
}

TEST(Tokenizer, GivesBackEveryByteLevelText) {
  const auto tokenizer = load(small_tokenizer());
  for (const char* text : {"", " ", "\r\n", "naïve 😀 e\u0301", "    x = 1"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true), true), text);
  }
}

TEST(Tokenizer, NamesTheByteThatIsNotUtf8) {
  const auto tokenizer = load(small_tokenizer());
  EXPECT_THAT(message_of([&] { tokenizer.encode("abc\xff", true); }), HasSubstr("byte 3 (0xFF)"));
  EXPECT_THAT(message_of([&] { tokenizer.encode("ab\xed\xa0\x80", true); }),
              HasSubstr("byte 2 (0xED)"));                                                            // a surrogate
  EXPECT_THAT(message_of([&] { tokenizer.encode("\xc0\xaf", true); }), HasSubstr("byte 0 (0xC0)"));   // overlong
  EXPECT_THAT(message_of([&] { tokenizer.encode("a\xe4\xbd", true); }), HasSubstr("byte 1 (0xE4)"));  // cut short
}

TEST(Tokenizer, RefusesNegativeIdsAndSkipsThoseWithoutToken) {
  const auto tokenizer = load(small_tokenizer());
  EXPECT_THAT(message_of([&] { tokenizer.decode(std::vector<int64_t>{-1}, true); }), HasSubstr("id -1"));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{1 << 20}, true), "");
}

TEST(Tokenizer, FindsTokensByTheirText) {
  const auto tokenizer = kvc::Tokenizer::load(kvc::test::kModelData / "added");
  EXPECT_EQ(tokenizer.encode("<mask>", false), std::vector<int64_t>({tokenizer.token_id("<mask>").value()}));
  EXPECT_FALSE(tokenizer.token_id("no such token").has_value());
}

// Added tokens may have no row: Gemma 3's text models lack that of the image token.
TEST(Tokenizer, HasNoMoreTokensThanTheEmbeddingRows) {
  auto file = small_tokenizer();
  const auto n = static_cast<int64_t>(file["model"]["vocab"].size());
  file["added_tokens"].push_back({{"id", load(file).vocab_size()}, {"content", "<image>"}, {"special", true}});
  load(file).check_rows(n, "m");
  EXPECT_EQ(message_of([&] { load(file).check_rows(n - 1, "m"); }),
            "m: the tokenizer's vocabulary has " + std::to_string(n) + " tokens, the model's embedding " +
                std::to_string(n - 1) + " rows: they are of two models");
}

// Harmony's tokens, as a model generates them behind "<|start|>assistant".
TEST(Tokenizer, ReadsAnAnswerInChannelsFromTheFinalOne) {
  auto file = small_tokenizer();
  const int64_t first = load(file).vocab_size();
  const std::vector<std::string> marks{"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>"};
  for (size_t i = 0; i < marks.size(); ++i) {
    file["added_tokens"].push_back({{"id", first + static_cast<int64_t>(i)}, {"content", marks[i]}, {"special", true}});
  }
  const auto tokenizer = load(file);
  const auto answer = [&](const std::string& text) { return tokenizer.answer(tokenizer.encode(text, false)); };
  const std::string thoughts = "<|channel|>analysis<|message|>2 + 2 is 5? No.<|end|><|start|>assistant";
  EXPECT_EQ(answer(thoughts + "<|channel|>final<|message|>It is 4.<|return|>"), "It is 4.");
  EXPECT_EQ(answer(thoughts + "<|channel|>final<|message|>It is"), "It is");
  EXPECT_EQ(answer(thoughts), "");
  EXPECT_EQ(answer(thoughts + "<|channel|>fin"), "");
  EXPECT_EQ(answer(thoughts + "<|channel|>commentary<|message|>call<|end|>"), "");
  EXPECT_EQ(answer("plain text<|end|>"), "plain text");  // no channels: nothing is left out
  EXPECT_EQ(load(small_tokenizer()).answer(load(small_tokenizer()).encode("<|channel|>final", false)),
            "<|channel|>final");
}

// Merges by hand: "abc" is b c, then a is left; "aaa" is the left a a, then a.
json abc_tokenizer(const json& pre_tokenizer) {
  return {{"pre_tokenizer", pre_tokenizer},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}, {"aa", 6}}},
            {"merges", {"b c", "a b", "ab c", "a a"}}}}};
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  using Ids = std::vector<int64_t>;
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}};
  for (const auto& pre_tokenizer : {json(), byte_level}) {
    auto file = abc_tokenizer(pre_tokenizer);
    const auto tokenizer = load(file);
    EXPECT_EQ(tokenizer.encode("abc", false), Ids({0, 3}));  // a token of the vocabulary that no merges lead to
    EXPECT_EQ(tokenizer.encode("aaa", false), Ids({6, 0}));
    auto many = Ids(60, 6);  // enough for the heap
    many.push_back(0);
    EXPECT_EQ(tokenizer.encode(std::string(121, 'a'), false), many);
    file["model"]["ignore_merges"] = true;
    EXPECT_EQ(load(file).encode("abc", false), Ids({5}));
    EXPECT_EQ(load(file).encode("abca", false), Ids({0, 3, 0}));
  }
}

TEST(Tokenizer, MergesAMegabyteWithoutASpaceInNearLinearTime) {
  const auto tokenizer = load(small_tokenizer());
  std::string text;
  for (uint32_t i = 0, random = 1; i < 1'000'000; ++i, random = random * 1664525u + 1013904223u)
    text += static_cast<char>('a' + (random >> 24) % 26);
  std::vector<int64_t> ids;
  EXPECT_LT(kvc::test::processor_seconds([&] { ids = tokenizer.encode(text, false); }), 20.0);  // quadratic: hours
  EXPECT_EQ(tokenizer.decode(ids, true), text);
}

TEST(Tokenizer, NamesUnsupportedComponentsAndTheSupportedOnes) {
  const auto refusal = [](const char* field, const json& value) {
    auto file = small_tokenizer();
    file[field] = value;
    return message_of([&] { load(file); });
  };
  EXPECT_THAT(refusal("normalizer", {{"type", "Nmt"}}),
              AllOf(HasSubstr("tokenizer.json: normalizer"), HasSubstr("'Nmt'"), HasSubstr("NFKC")));
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "UnicodeScripts"}}),
              AllOf(HasSubstr("pre_tokenizer"), HasSubstr("'UnicodeScripts'"), HasSubstr("Metaspace")));
  EXPECT_THAT(refusal("decoder", {{"type", "WordPiece"}}),
              AllOf(HasSubstr("decoder"), HasSubstr("'WordPiece'"), HasSubstr("ByteFallback")));
  EXPECT_THAT(refusal("post_processor", {{"type", "BertProcessing"}}),
              AllOf(HasSubstr("post_processor"), HasSubstr("'BertProcessing'"), HasSubstr("TemplateProcessing")));
  EXPECT_THAT(refusal("model", {{"type", "Unigram"}}),
              AllOf(HasSubstr("model"), HasSubstr("'Unigram'"), HasSubstr("BPE")));
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}}),
              AllOf(HasSubstr("'(a'"), HasSubstr("offset")));
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sideways"}}),
              AllOf(HasSubstr("'Sideways'"), HasSubstr("Isolated")));
  EXPECT_THAT(refusal("normalizer", {{"type", "Prepend"}}), HasSubstr("'prepend' is missing"));
}

TEST(Tokenizer, NamesBrokenVocabulariesAndMerges) {
  auto file = small_tokenizer();
  file["model"]["merges"].push_back("a");
  EXPECT_THAT(message_of([&] { load(file); }), AllOf(HasSubstr("merges["), HasSubstr("\"a\"")));
  file["model"]["merges"].back() = {"a", "no such"};
  EXPECT_THAT(message_of([&] { load(file); }),
              AllOf(HasSubstr("merges["), HasSubstr("'no such' is not in the vocabulary")));
  file = small_tokenizer();
  file["model"]["vocab"]["twice"] = 5;
  EXPECT_THAT(message_of([&] { load(file); }), AllOf(HasSubstr("id 5"), HasSubstr("'twice'")));
  file["model"]["vocab"]["twice"] = -1;
  EXPECT_THAT(message_of([&] { load(file); }), AllOf(HasSubstr("twice"), HasSubstr("-1")));
}

TEST(Tokenizer, NamesFileAndByteOfBrokenJson) {
  const TempFolder dir;
  dir.write("tokenizer.json", "{\"model\": }");
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("byte 11")));
}

TEST(ByteAlphabet, IsItsOwnInverse) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(kvc::alphabet_to_bytes(kvc::bytes_to_alphabet(bytes)), bytes);
  EXPECT_EQ(kvc::bytes_to_alphabet(" \n"), "\u0120\u010a");
}

TEST(TokenizerRegex, TakesWhiteSpaceAsUnicodeHasIt) {
  EXPECT_EQ(kvc::TokenizerRegex("[^\\s]+", "here").find_all("a\u0085b\u180ec").size(),
            2u);  // U+0085 is white space, U+180E is not
}

}  // namespace
