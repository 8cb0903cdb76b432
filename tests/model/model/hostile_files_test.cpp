// What fuzzing and reading the code against it found: each was accepted, took the machine with it, or was refused in
// words that nobody can read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors_header.h"
#include "kvc/check.h"
#include "support/message_of.h"
#include "support/processor_seconds.h"
#include "support/temp_folder.h"
#include "text/json_reader.h"
#include "tokenizer/tokenizer.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;
using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

TEST(HostileHeader, WithAnEmptyTensorOfOverflowingStridesIsRefused) {
  for (const char* shape : {"[0,4611686018427387904,4]", "[4611686018427387904,0,4]", "[4611686018427387904,4,0]"}) {
    const auto header = std::string(R"({"w":{"dtype":"F32","shape":)") + shape + R"(,"data_offsets":[0,0]}})";
    EXPECT_THAT(message_of([&] { kvc::parse_safetensors_header(header, 0, "x"); }), HasSubstr("2^63")) << shape;
  }
}

// An object of objects, and an array of them: parsed in a fraction of a second, not in a time that grows with n^2.
TEST(HostileHeader, OfVeryManyTensorsIsReadAtOnce) {
  std::string header = "{", list = "[";
  constexpr int kTensors = 200'000;
  for (int i = 0; i < kTensors; ++i) {
    const auto entry = kvc::concat(R"({"dtype":"U8","shape":[1],"data_offsets":[)", i, ",", i + 1, "]}");
    header += kvc::concat(i ? "," : "", "\"", i, "\":", entry);
    list += (i ? "," : "") + entry;
  }
  const double seconds = kvc::test::processor_seconds([&] {
    EXPECT_THAT(kvc::parse_safetensors_header(header + "}", kTensors, "x"), SizeIs(kTensors));
    EXPECT_THAT(kvc::parse_json(list + "]", "x"), SizeIs(kTensors));
  });
  EXPECT_LT(seconds, 20);
}

// Names come from the file: an error shows at most their start, and nothing that a terminal obeys.
TEST(HostileNames, AreShownInOneShortLine) {
  const auto header = json{{std::string(100'000, 'x') + "\n", 3}}.dump();
  EXPECT_THAT(message_of([&] { kvc::parse_safetensors_header(header, 0, "x"); }), SizeIs(testing::Le(200)));
  const auto message =
      message_of([&] { kvc::parse_json("{\"a\\u0000\\u001b[2J\\nb\":1,\"a\\u0000\\u001b[2J\\nb\":2}", "x"); });
  EXPECT_THAT(message, HasSubstr(R"(duplicate key 'a\x00\x1b[2J\nb')"));
  EXPECT_THAT(message_of([&] { kvc::parse_json(std::string(100'000, '9'), "x"); }), SizeIs(testing::Le(300)));
}

json tokenizer() {
  return {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"<s>", 2}}}, {"merges", json::array()}}},
          {"decoder", {{"type", "Fuse"}}}};
}

kvc::Tokenizer loaded(const json& file) {
  const TempFolder dir;
  dir.write("tokenizer.json", file.dump());
  return kvc::Tokenizer::load(dir.path());
}

json doubling(int n_times) {
  return json::array_t(static_cast<size_t>(n_times),
                       {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
}

TEST(HostileTokenizer, ThatDoublesATextSixtyTimesIsRefused) {
  auto file = tokenizer();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling(3)}};
  EXPECT_THAT(loaded(file).encode("a", false), SizeIs(8));
  file["normalizer"]["normalizers"] = doubling(60);
  EXPECT_THAT(message_of([&] { loaded(file).encode("a", false); }), HasSubstr("at most 288"));
  file["normalizer"] = nullptr;
  file["decoder"] = {{"type", "Sequence"}, {"decoders", doubling(60)}};
  EXPECT_THAT(message_of([&] { loaded(file).decode(std::vector<int64_t>{0}, false); }), HasSubstr("at most 320"));
}

TEST(HostileTokenizer, ThatMakesManyLongPiecesIsRefused) {
  auto file = tokenizer();
  const json all = {{"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}};
  const json sign = {{"type", "Metaspace"}, {"replacement", std::string(250, 'a')}, {"split", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {all, sign}}};
  EXPECT_THAT(message_of([&] { loaded(file).encode(std::string(100, 'b'), false); }), HasSubstr("components make"));
}

json template_of(const json& single, const json& ids) {
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", {{"<s>", {{"ids", ids}}}}}};
}

TEST(HostileTokenizer, WithATemplateOfWrongIdsIsRefused) {
  auto file = tokenizer();
  const json single = {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}};
  file["post_processor"] = template_of(single, {UINT64_MAX});
  EXPECT_THAT(message_of([&] { loaded(file); }), HasSubstr("18446744073709551615, expected a token id"));
}

// A thousand times a thousand ids from a file of some kilobytes
TEST(HostileTokenizer, WithATemplateThatMultipliesIsRefused) {
  auto file = tokenizer();
  auto single = json::array_t(1000, {{"SpecialToken", {{"id", "<s>"}}}});
  single.push_back({{"Sequence", {{"id", "A"}}}});
  file["post_processor"] = template_of(single, json::array_t(1000, 2));
  EXPECT_THAT(message_of([&] { loaded(file); }), HasSubstr("more than 1024 special tokens"));
}

// \C matches one byte: what follows would begin within a character.
TEST(HostileTokenizer, WhoseRegexSplitsCharactersIsRefused) {
  auto file = tokenizer();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "\\C"}}}, {"behavior", "Isolated"}};
  EXPECT_THAT(message_of([&] { loaded(file); }), HasSubstr("'\\C'"));
}

TEST(HostileTokenizer, ThatStripsAMillionTimesIsDoneAtOnce) {
  auto file = tokenizer();
  const auto strip = [](const char* sign) {
    return json{{"type", "Strip"}, {"content", sign}, {"start", 1 << 20}, {"stop", 1 << 20}};
  };
  const std::string word(1 << 20, 'a');
  file["model"]["vocab"][word] = 3;
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, strip("a")}}};
  const auto tokenizer = loaded(file);
  EXPECT_LT(kvc::test::processor_seconds([&] {
              EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{3, 1}, false), "b");
            }),
            10);
  file["decoder"] = strip("");
  EXPECT_THAT(message_of([&] { loaded(file); }), HasSubstr("content is empty"));
}

TEST(HostileTokenizer, WithAnIdBeyondEveryVocabularyIsRefused) {
  auto file = tokenizer();
  file["model"]["vocab"]["c"] = INT32_MAX;  // a table by id would take 256 MiB
  EXPECT_THAT(message_of([&] { loaded(file); }), HasSubstr("from 0 to 16777215"));
}

// sentencepiece's ModelProto of three pieces: <unk> (2, unknown), a (1, normal), and a user's (4). One that begins with
// NUL makes the library's trie throw an exception of its own.
TEST(HostileTokenizer, WithAPieceThatBeginsWithNulIsRefused) {
  const TempFolder dir;
  const auto model = [](const std::string& piece) {
    const auto of = [](const std::string& text, char type) {
      return "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x18" + type;
    };
    const auto message = [](const std::string& bytes) {
      return "\x0a" + std::string(1, static_cast<char>(bytes.size())) + bytes;
    };
    return message(of("<unk>", 2)) + message(of("a", 1)) + message(of(piece, 4));
  };
  dir.write("tokenizer.model", model("b"));
  EXPECT_EQ(kvc::Tokenizer::load(dir.path()).vocab_size(), 3);
  dir.write("tokenizer.model", model(std::string(1, '\0') + "b"));
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }), HasSubstr("darts.h"));
}

// A line of merges.txt goes into the error, whatever its bytes are.
TEST(HostileTokenizer, WithMergesThatAreNoTextIsRefused) {
  const TempFolder dir;
  dir.write("vocab.json", R"({"a":0,"b":1,"ab":2})");
  dir.write("merges.txt", "a b\na \xff\n");
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }), HasSubstr("merges[1]"));
}

}  // namespace
