// Which files make a tokenizer, what they say of special tokens, and refusals of broken ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/protobuf_fields.h"
#include "support/message_of.h"
#include "support/places.h"
#include "support/processor_seconds.h"
#include "support/temp_folder.h"
#include "text/files.h"
#include "text/json_reader.h"
#include "tokenizer/tokenizer.h"

namespace {

namespace fs = std::filesystem;
using kvc::test::message_of;
using kvc::test::TempFolder;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Ids = std::vector<int64_t>;

// A copy of a golden folder's files, to be changed.
struct Folder : TempFolder {
  explicit Folder(const std::string& name) {
    for (const auto& entry : fs::directory_iterator(kvc::test::kModelData / name)) {
      fs::copy_file(entry.path(), path() / entry.path().filename());
    }
  }
  void write_json(const std::string& name, const json& value) const { write(name, value.dump()); }
  kvc::Tokenizer load() const { return kvc::Tokenizer::load(path()); }
  std::string refusal() const {
    return message_of([&] { load(); });
  }
};

TEST(TokenizerFiles, NamesTheThreeWhereThereIsNone) {
  const TempFolder dir;
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }),
              AllOf(HasSubstr(dir.path().string()), HasSubstr("tokenizer.json"), HasSubstr("tokenizer.model"),
                    HasSubstr("vocab.json with merges.txt")));
  dir.write("vocab.json", "{}");  // without merges.txt
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }), HasSubstr("no tokenizer"));
}

TEST(TokenizerFiles, PrefersTokenizerJsonThenTokenizerModel) {
  const Folder folder("gpt2");
  const auto size = folder.load().vocab_size();
  fs::copy_file(kvc::test::kModelData / "pieces" / "tokenizer.model", folder / "tokenizer.model");
  fs::remove(folder / "tokenizer_config.json");
  const auto pieces = folder.load();
  EXPECT_TRUE(pieces.token_id("▁the").has_value());
  EXPECT_NE(pieces.vocab_size(), size);
  fs::copy_file(kvc::test::kModelData / "added" / "tokenizer.json", folder / "tokenizer.json");
  EXPECT_TRUE(folder.load().token_id("<mask>").has_value());
}

TEST(TokenizerFiles, TakesBeginAndEndFromTheConfiguration) {
  const Folder folder("pieces");
  const auto plain = folder.load().encode("the", false);
  EXPECT_EQ(folder.load().encode("the", true), (Ids{1, plain[0]}));  // <s> of the model file
  folder.write_json("tokenizer_config.json", {{"add_bos_token", false}, {"add_eos_token", true}});
  EXPECT_EQ(folder.load().encode("the", true), (Ids{plain[0], 2}));
  folder.write_json("tokenizer_config.json", {{"bos_token", {{"content", "<unk>"}}}, {"eos_token", "</s>"}});
  EXPECT_EQ(folder.load().encode("the", true), (Ids{0, plain[0]}));
}

TEST(TokenizerFiles, FindsSpecialTokensInTextsOnlyWhereTheFolderNamesThem) {
  const Folder folder("pieces");
  EXPECT_GT(folder.load().encode("</s>", false).size(), 1u);  // as sentencepiece
  folder.write_json("special_tokens_map.json", {{"eos_token", "</s>"}});
  EXPECT_EQ(folder.load().encode("</s>", false), Ids{2});
  EXPECT_EQ(folder.load().decode(Ids{2}, true), "");
  EXPECT_EQ(folder.load().decode(Ids{2}, false), "</s>");
}

TEST(TokenizerFiles, PutsTokensBehindTheVocabulary) {
  const Folder folder("gpt2");
  const auto size = folder.load().vocab_size();
  folder.write_json("added_tokens.json", {{"<pad>", size}, {"[two words]", size + 1}});
  folder.write_json("special_tokens_map.json", {{"pad_token", "<pad>"}});
  const auto tokenizer = folder.load();
  EXPECT_EQ(tokenizer.vocab_size(), size + 2);
  EXPECT_EQ(tokenizer.encode("<pad>[two words]", false), (Ids{size, size + 1}));
  EXPECT_EQ(tokenizer.decode(Ids{size, size + 1}, true), "[two words]");
}

TEST(TokenizerFiles, NamesSpecialTokensWithoutAnIdOrWithTwo) {
  const Folder folder("gpt2");
  folder.write_json("special_tokens_map.json", {{"pad_token", "<pad>"}});
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("'<pad>' has no id"), HasSubstr("added_tokens.json")));
  folder.write_json("special_tokens_map.json", json::object());
  folder.write_json("tokenizer_config.json", {{"added_tokens_decoder", {{"7", {{"content", "</s>"}}}}}});
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("'</s>' has id 7"), HasSubstr("vocabulary 1")));
  folder.write_json("tokenizer_config.json", {{"added_tokens_decoder", {{"x7", {{"content", "</s>"}}}}}});
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("'x7'"), HasSubstr("a token id")));
  folder.write_json("tokenizer_config.json", {{"add_bos_token", true}});
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("add_bos_token is true"), HasSubstr("no bos_token")));
}

TEST(TokenizerFiles, NamesBrokenVocabulariesAndMerges) {
  const Folder folder("gpt2");
  folder.write("merges.txt", "#version: 0.2\nh e\r\n\nhe\n");
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("vocab.json with merges.txt: merges[1]"), HasSubstr("\"he\"")));
  folder.write("vocab.json", "[]");
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("vocab.json"), HasSubstr("object")));
  folder.write("vocab.json", "{\"a\": 0, \"a\": 1}");
  EXPECT_THAT(folder.refusal(), HasSubstr("duplicate key 'a'"));
}

TEST(TokenizerFiles, NamesModelFilesThatAreNotSentencepieces) {
  const Folder folder("pieces");
  const auto model = kvc::read_file(folder / "tokenizer.model");
  folder.write("tokenizer.model", "IQ== 0\nIg== 1\n");  // tiktoken's
  EXPECT_THAT(folder.refusal(), AllOf(HasSubstr("tokenizer.model"), HasSubstr("not a sentencepiece model")));
  folder.write("tokenizer.model", model.substr(0, model.size() - 1));
  EXPECT_THAT(folder.refusal(), HasSubstr("tokenizer.model"));
  folder.write("tokenizer.model", "");
  EXPECT_THAT(folder.refusal(), HasSubstr("tokenizer.model"));
  folder.write("tokenizer.model", model + std::string("\x12\x03\xC0\x01\x01", 5));  // trainer_spec {24: 1}
  EXPECT_THAT(folder.refusal(), HasSubstr("treat_whitespace_as_suffix"));
  folder.write("tokenizer.model", model + std::string("\x2A\x03\x12\x01x", 5));  // denormalizer_spec {2: "x"}
  EXPECT_THAT(folder.refusal(), HasSubstr("denormalization"));
}

// Messages of a later field are merged into the earlier: normalizer_spec {add_dummy_prefix: false} turns the space off.
TEST(TokenizerFiles, TakesTheLeadingSpaceFromTheModelFile) {
  const Folder folder("pieces");
  const auto the = folder.load().token_id("▁the").value();
  EXPECT_EQ(folder.load().encode("the", false), Ids{the});
  EXPECT_EQ(folder.load().decode(Ids{the}, true), "the");
  const auto model = kvc::read_file(folder / "tokenizer.model");
  folder.write("tokenizer.model", model + std::string("\x1A\x02\x18\x00", 4));
  EXPECT_EQ(folder.load().encode(" the", false), Ids{the});
  EXPECT_EQ(folder.load().decode(Ids{the}, true), " the");
}

TEST(TokenizerFiles, RefusesTextThatIsNotUtf8WhateverTheFile) {
  for (const char* name : {"gpt2", "pieces", "spm"}) {
    const auto tokenizer = kvc::Tokenizer::load(kvc::test::kModelData / name);
    EXPECT_THAT(message_of([&] { tokenizer.encode("abcdefghijk\xff", true); }), HasSubstr("byte 11 (0xFF)")) << name;
  }
}

// The field numbers and lengths as protobuf's documentation encodes them.
TEST(ProtobufFields, ReadsEachWireTypeAndRefusesTheRest) {
  const std::string message("\x08\x96\x01\x12\x02hi\x1D\0\0\0\0\x21\0\0\0\0\0\0\0\0", 21);
  const auto fields = kvc::protobuf_fields(message, "m");
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].value, 150u);
  EXPECT_EQ(fields[1].bytes, "hi");
  EXPECT_EQ(fields[3].number, 4u);
  EXPECT_THAT(message_of([] { kvc::protobuf_fields("\x12\x05hi", "m"); }), HasSubstr("a field of 5 bytes, 2 are left"));
  EXPECT_THAT(message_of([] { kvc::protobuf_fields("\x0B", "m"); }), HasSubstr("wire type 3"));
  EXPECT_THAT(message_of([] { kvc::protobuf_fields(std::string(11, '\x80'), "m"); }), HasSubstr("64 bits"));
  EXPECT_THAT(message_of([] { kvc::protobuf_fields("\x08", "m"); }), HasSubstr("0 are left"));
}

// Ten times the text may take twenty times as long (merges are taken from a heap); merging by searching takes a hundred.
TEST(RealTokenizers, EncodeAMegabyteWithoutASpaceInTimeThatGrowsWithItsLength) {
  const char* data = std::getenv("KVC_DATA");
  if (!data || !fs::exists(fs::path(data) / "tokenizers")) GTEST_SKIP() << "KVC_DATA/tokenizers is absent";
  const TempFolder pieces;
  const auto root = fs::path(data) / "tokenizers";
  fs::copy_file(root / "llama2" / "tokenizer.model", pieces / "tokenizer.model");
  std::string random, chinese;
  for (uint32_t i = 0, state = 1; i < 1'000'000; ++i, state = state * 1664525u + 1013904223u)
    random += static_cast<char>('a' + (state >> 24) % 26);
  while (chinese.size() < 1'000'000) chinese += "中文模型缓存压缩";
  for (const auto& folder : {root / "llama2", root / "llama3", root / "neox", pieces.path()}) {
    const auto tokenizer = kvc::Tokenizer::load(folder);
    for (const auto& text : {random, std::string(1'000'000, 'a'), chinese}) {
      std::vector<int64_t> ids;
      const auto seconds = [&](size_t n_bytes) {
        const auto part = text.substr(0, n_bytes);
        return kvc::test::processor_seconds([&] { ids = tokenizer.encode(part, false); });
      };
      const double tenth = std::max(seconds(99'984), 0.1);  // 24 bytes repeat in the last text
      EXPECT_LT(seconds(text.size()), 20 * tenth) << folder;
      EXPECT_EQ(tokenizer.decode(ids, true), text) << folder;
    }
  }
}

}  // namespace
