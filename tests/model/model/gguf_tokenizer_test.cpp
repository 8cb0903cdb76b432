// Tokenizers of GGUF files: SmolLM2's real file, vocabularies worked out by hand, and files that lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "../gguf/gguf_writer.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace kvc::test;
using testing::AllOf;
using testing::HasSubstr;
using Ids = std::vector<int64_t>;

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

struct File : GgufWriter {
  void put(const std::string& name, const GgufValueBytes& value) { set("tokenizer.ggml." + name, value); }
  void drop(const std::string& name) { erase("tokenizer.ggml." + name); }
  kvc::Tokenizer load() const {
    const TempFolder dir;
    write(dir / "model.gguf");
    return kvc::Tokenizer::load(dir / "model.gguf");
  }
  std::string refusal() const {
    const auto message = message_of([&] { load(); });
    EXPECT_THAT(message, HasSubstr("model.gguf: "));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
};

const std::vector<std::string> kTokens = {
    "<|bos|>", "a", "b",  "ab",     "\u0120", "\u0120a",      "1",       "2",       "12",      "?",
    "'",       "S", "'S", "\u00c3", "\u00a9", "\u00c3\u00a9", "x\u0301", "[PAD17]", "<think>", "  "};
std::vector<int32_t> byte_level_types() {
  std::vector<int32_t> types(kTokens.size(), kNormal);
  types[0] = types[16] = kControl;
  types[17] = kUnused;
  types[18] = types[19] = kUserDefined;
  return types;
}

File byte_level(const std::string& pre) {
  File file;
  file.put("model", text("gpt2"));
  file.put("pre", text(pre));
  file.put("tokens", texts(kTokens));
  file.put("token_type", i32s(byte_level_types()));
  file.put("merges", texts({"a b", "\u0120 a", "1 2", "\u00c3 \u00a9"}));
  file.put("bos_token_id", u32(0));
  file.put("eos_token_id", u32(16));
  file.put("add_bos_token", boolean(false));
  return file;
}

TEST(GgufTokenizer, CutsByTheNamedPreTokenizer) {
  const auto encode = [](const std::string& pre, const std::string& text) {
    return byte_level(pre).load().encode(text, true);
  };
  for (const char* pre : {"gpt-2", "llama-bpe", "llama3", "llama-v3", "dbrx"}) EXPECT_EQ(encode(pre, "12"), Ids{8});
  for (const char* pre : {"smollm", "starcoder", "command-r", "qwen2", "stablelm2"}) {
    EXPECT_EQ(encode(pre, "12"), (Ids{6, 7})) << pre;
  }
  EXPECT_EQ(encode("gpt-2", "1212"), (Ids{8, 8}));
  EXPECT_EQ(encode("dbrx", "1212"), (Ids{8, 6, 7}));  // 121 and 2
  EXPECT_EQ(encode("dbrx", "'S"), (Ids{10, 11}));     // no merge makes it,
  EXPECT_EQ(encode("llama-bpe", "'S"), Ids{12});      // but it is a token as a whole
  EXPECT_EQ(encode("gpt-2", "e\u0301"), Ids{});       // none of its bytes is a token
  EXPECT_EQ(encode("qwen2", "e\u0301"), Ids{15});     // composed
  EXPECT_EQ(encode("gpt-2", " ab"), (Ids{4, 3}));     // "a b" goes first
  EXPECT_EQ(encode("gpt-2", " a"), Ids{5});
}

TEST(GgufTokenizer, FindsControlAndUserDefinedTokensAndSkipsTheSpecialOnes) {
  const auto tokenizer = byte_level("gpt-2").load();
  const Ids ids = {1, 0, 18, 16, 19, 2};
  EXPECT_EQ(tokenizer.encode("a<|bos|><think>x\u0301  b", false), ids);
  EXPECT_EQ(tokenizer.decode(ids, false), "a<|bos|><think>x\u0301  b");
  EXPECT_EQ(tokenizer.decode(ids, true), "a<think>  b");
  EXPECT_EQ(tokenizer.decode(Ids{1, 17, 2}, false), "ab");  // an unused token has no text
  EXPECT_EQ(tokenizer.token_id("[PAD17]"), std::nullopt);
}

TEST(GgufTokenizer, PutsBeginAndEndAroundATextWhereTheFileSaysSo) {
  auto file = byte_level("llama-bpe");
  EXPECT_EQ(file.load().encode("a", true), Ids{1});
  file.drop("add_bos_token");
  EXPECT_EQ(file.load().encode("a", true), (Ids{0, 1}));  // what Llama 3's files mean
  EXPECT_EQ(file.load().encode("a", false), Ids{1});
  file.put("pre", text("gpt-2"));
  EXPECT_EQ(file.load().encode("a", true), Ids{1});
  file.put("add_bos_token", boolean(true));
  file.put("add_eos_token", boolean(true));
  EXPECT_EQ(file.load().encode("a", true), (Ids{0, 1, 16}));
  file.drop("token_type");  // then these two are special by their names
  EXPECT_EQ(file.load().decode(file.load().encode("a<|bos|>x\u0301", true), true), "a");
}

constexpr std::pair<const char*, float> kWords[] = {{"\u2581", -9}, {"a", -9},  {"b", -9},       {"c", -9},
                                                    {"ab", -2},     {"bc", -1}, {"\u2581a", -3}, {"abc", -4}};
std::vector<std::string> piece_texts() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.emplace_back(name);
  }
  for (const auto& [word, score] : kWords) tokens.emplace_back(word);
  tokens.emplace_back("<|user|>");
  return tokens;
}

// <unk> <s> </s>, the bytes, and words with scores
File pieces() {
  std::vector<int32_t> types(268, kNormal);
  std::vector<float> scores(268, 0);
  types[0] = kUnknown, types[1] = types[2] = kControl, types[267] = kUserDefined;
  std::fill_n(types.begin() + 3, 256, kByte);
  for (size_t i = 0; i < std::size(kWords); ++i) scores[259 + i] = kWords[i].second;
  File file;
  file.put("model", text("llama"));
  file.put("tokens", texts(piece_texts()));
  file.put("token_type", i32s(types));
  file.put("scores", f32s(scores));
  file.put("bos_token_id", u32(1));
  file.put("eos_token_id", u32(2));
  return file;
}
constexpr int64_t kSpace = 259, kA = 260, kB = 261, kC = 262, kAb = 263, kBc = 264, kSpaceA = 265, kAbc = 266,
                  kUser = 267;

TEST(GgufTokenizer, MergesPiecesByScore) {
  const auto tokenizer = pieces().load();
  EXPECT_EQ(tokenizer.encode("a", true), (Ids{1, kSpaceA}));
  EXPECT_EQ(tokenizer.encode("ab", false), (Ids{kSpace, kAb}));    // ab before _a
  EXPECT_EQ(tokenizer.encode("abc", false), (Ids{kSpaceA, kBc}));  // bc first, then _a (-3) before abc (-4)
  EXPECT_EQ(tokenizer.encode(" b", false), (Ids{kSpace, kSpace, kB}));
  EXPECT_EQ(tokenizer.encode("aa\u00e9", false), (Ids{kSpaceA, kA, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer.encode("c</s>c<|user|>b", false), (Ids{kSpace, kC, 2, kSpace, kC, kUser, kSpace, kB}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab a\u00e9\n</s>", true), true), "ab a\u00e9\n");
  EXPECT_EQ(tokenizer.decode(Ids{kSpaceA, kUser}, true), "a<|user|>");
  auto file = pieces();
  file.put("add_space_prefix", boolean(false));
  file.put("add_bos_token", boolean(false));
  EXPECT_EQ(file.load().encode("abc", true), Ids{kAbc});
  EXPECT_EQ(file.load().decode(Ids{kSpaceA}, true), " a");
}

TEST(GgufTokenizer, DropsSpacesBehindTokensOfPhi3Only) {
  auto file = pieces();
  EXPECT_EQ(file.load().encode("<|user|>\nb", false), (Ids{kUser, kSpace, 3 + '\n', kB}));
  file.set("general.architecture", text("phi3"));
  EXPECT_EQ(file.load().encode("<|user|>\nb", false), (Ids{kUser, kSpace, kB}));
  EXPECT_EQ(file.load().encode("<s>\nb", false), (Ids{1, kSpace, 3 + '\n', kB}));
}

// Phi-3's files of spring 2024: the converter began with [PAD0] to [PADn] of type unknown, and left some.
TEST(GgufTokenizer, TheNamedTokenIsTheUnknownOneAndPaddingIsNone) {
  auto file = pieces();
  auto tokens = piece_texts();
  std::vector<int32_t> types(tokens.size() + 53, kNormal);
  std::vector<float> scores(types.size(), -10000);
  for (size_t i = 0; i < std::size(kWords); ++i) scores[259 + i] = kWords[i].second;
  for (size_t i = tokens.size(); i < types.size(); ++i) {
    tokens.push_back("[PAD" + std::to_string(i) + "]"), types[i] = kUnknown;
  }
  types[0] = kUnknown, types[1] = types[2] = kControl;
  for (int byte = 0; byte < 256; ++byte) types[static_cast<size_t>(3 + byte)] = kByte;
  file.put("tokens", texts(tokens));
  file.put("token_type", i32s(types));
  file.put("scores", f32s(scores));
  file.put("unknown_token_id", u32(0));
  const auto tokenizer = file.load();
  EXPECT_EQ(tokenizer.encode("ab", true), pieces().load().encode("ab", true));
  EXPECT_EQ(tokenizer.decode(Ids{kA, 300, kB}, true), "ab");                        // padding has no text,
  for (const int64_t id : tokenizer.encode("[PAD300]", false)) EXPECT_NE(id, 300);  // and none becomes padding
  file.drop("unknown_token_id");
  EXPECT_EQ(file.load().encode("ab", true), tokenizer.encode("ab", true));  // <unk> at its usual place
  tokens[0] = "?";
  file.put("tokens", texts(tokens));
  EXPECT_THAT(file.refusal(), HasSubstr("token_type is 2 54 times, and there is no tokenizer.ggml.unknown_token_id"));
}

TEST(GgufTokenizer, ReadsWhatEarlierConvertersLeftOut) {
  auto file = pieces();
  const auto expected = file.load().encode("ab\u00e9c</s>", true);
  for (const char* key : {"bos_token_id", "eos_token_id"}) file.drop(key);
  EXPECT_EQ(file.load().encode("ab\u00e9c</s>", true), expected);  // <s> and </s> at their usual places
  file.drop("token_type");                                         // and the bytes by their names
  EXPECT_EQ(file.load().encode("ab\u00e9c</s>", true), expected);
  EXPECT_EQ(file.load().decode(Ids{kA, 2, 3 + 0xC3, 3 + 0xA9}, true), "a\u00e9");

  file = pieces();
  std::vector<int32_t> whole;
  for (int i = 0; i < 300; ++i) whole.push_back(i < 265 ? -i : i == 265 ? -3 : -4);  // integers, and some too many
  whole[263] = -2, whole[264] = -1;
  file.put("scores", i32s(whole));
  EXPECT_EQ(file.load().encode("abc", false), (Ids{kSpaceA, kBc}));

  auto bytes = byte_level("gpt-2");
  auto tokens = kTokens;
  tokens.emplace_back(), tokens.emplace_back();  // two without a text
  auto types = byte_level_types();
  types.insert(types.end(), {kNormal, kControl, kNormal});
  bytes.put("tokens", texts(tokens));
  bytes.put("token_type", i32s(types));
  EXPECT_EQ(bytes.load().encode("ab", true), byte_level("gpt-2").load().encode("ab", true));
  EXPECT_EQ(bytes.load().decode(Ids{1, 20, 21}, true), "a");
}

// No answer holds the text of the token that ended it.
TEST(GgufTokenizer, EveryEndTokenIsSpecial) {
  auto tokens = kTokens;
  tokens[16] = "<|im_end|>", tokens[17] = "<|endoftext|>";
  auto file = byte_level("gpt-2");
  file.put("tokens", texts(tokens));
  auto types = byte_level_types();
  types[17] = kControl;
  file.put("token_type", i32s(types));
  EXPECT_EQ(file.load().decode(Ids{1, 17}, true), "a");
  file.drop("token_type");
  EXPECT_EQ(file.load().decode(Ids{1, 17, 16}, true), "a");
}

TEST(GgufTokenizer, RefusesByNameWhatItDoesNotKnow) {
  File file;
  EXPECT_THAT(file.refusal(), HasSubstr("tokenizer.ggml.model"));
  file.put("model", u32(1));
  EXPECT_THAT(file.refusal(), HasSubstr("tokenizer.ggml.model"));
  for (const char* model : {"bert", "t5", "rwkv", "gemma4", ""}) {
    file.put("model", text(model));
    EXPECT_THAT(file.refusal(), AllOf(HasSubstr("'" + std::string(model) + "'"), HasSubstr("supported: gpt2, llama")));
  }
  EXPECT_THAT(byte_level("tekken").refusal(), AllOf(HasSubstr("pre is 'tekken'"), HasSubstr("gpt-2, smollm")));
  EXPECT_THAT(byte_level("default").refusal(), HasSubstr("pre is 'default'"));
  file = byte_level("");
  file.drop("pre");
  EXPECT_THAT(file.refusal(), AllOf(HasSubstr("pre is absent"), HasSubstr("qwen2")));
}

TEST(GgufTokenizer, RefusesAVocabularyThatContradictsItself) {
  const auto changed = [](const std::string& name, const GgufValueBytes& value) {
    auto file = byte_level("gpt-2");
    file.put(name, value);
    return file.refusal();
  };
  auto tokens = kTokens;
  tokens[7] = "1";
  EXPECT_THAT(changed("tokens", texts(tokens)), HasSubstr("tokens[7] is '1', and so is tokens[6]"));
  tokens[7] = "\xff";
  EXPECT_THAT(changed("tokens", texts(tokens)), HasSubstr("tokens[7]"));
  EXPECT_THAT(changed("tokens", texts({})), HasSubstr("tokens"));
  EXPECT_THAT(changed("tokens", i32s({1})), HasSubstr("tokens"));
  auto types = byte_level_types();
  types[3] = 7;
  EXPECT_THAT(changed("token_type", i32s(types)), HasSubstr("token_type[3] is 7, expected 1 to 6"));
  types.pop_back();
  EXPECT_THAT(changed("token_type", i32s(types)), HasSubstr("token_type has 19 values, expected 20"));
  EXPECT_THAT(changed("merges", texts({"a b", "ab"})), AllOf(HasSubstr("merges[1]"), HasSubstr("\"ab\"")));
  EXPECT_THAT(changed("merges", texts({" ab"})), HasSubstr("merges[0]"));
  EXPECT_THAT(changed("merges", texts({"a 1"})), AllOf(HasSubstr("merges[0]"), HasSubstr("'a1' is not in")));
  EXPECT_THAT(changed("merges", texts({"\xc3 a"})), HasSubstr("merges[0]"));
  EXPECT_THAT(changed("bos_token_id", u32(20)), HasSubstr("bos_token_id is 20, expected a token's id, 0 to 19"));
  EXPECT_THAT(changed("eos_token_id", i32(-1)), HasSubstr("eos_token_id is -1"));
  EXPECT_THAT(changed("add_bos_token", u32(1)), HasSubstr("add_bos_token"));
  auto file = byte_level("llama-bpe");
  file.drop("merges");
  EXPECT_THAT(file.refusal(), HasSubstr("merges"));
  file = byte_level("llama-bpe");
  file.drop("bos_token_id");
  file.drop("add_bos_token");
  EXPECT_THAT(file.refusal(), HasSubstr("add_bos_token is absent, which means true, but there is no"));
}

TEST(GgufTokenizer, RefusesAnotherNumberOfTokensThanTheEmbeddingHas) {
  auto file = byte_level("gpt-2");
  file.set("general.architecture", text("llama"));
  file.tensors.push_back({"token_embd.weight", {20, 1}, 0, std::string(80, '\0')});
  EXPECT_EQ(file.load().encode("a", true), Ids{1});
  file.tensors[0] = {"token_embd.weight", {24, 1}, 0, std::string(96, '\0')};
  EXPECT_THAT(file.refusal(), HasSubstr("tokens has 20 values, expected 24, one a row of token_embd.weight"));
}

TEST(GgufTokenizer, RefusesPiecesThatCannotBeMerged) {
  const auto changed = [](const std::string& name, const GgufValueBytes& value) {
    auto file = pieces();
    file.put(name, value);
    return file.refusal();
  };
  std::vector<int32_t> types(268, kNormal);
  types[0] = kUnknown, types[5] = kByte;
  EXPECT_THAT(changed("token_type", i32s(types)), HasSubstr("1 times, expected 256 or none"));
  types[260] = kByte;
  EXPECT_THAT(changed("token_type", i32s(types)), AllOf(HasSubstr("tokens[260] is 'a'"), HasSubstr("<0x00>")));
  std::vector<float> scores(268);
  scores[9] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(changed("scores", f32s(scores)), HasSubstr("scores[9] is nan"));
  scores.pop_back();
  EXPECT_THAT(changed("scores", f32s(scores)), HasSubstr("scores has 267 values, expected 268"));
  auto file = pieces();
  file.drop("scores");
  EXPECT_THAT(file.refusal(), HasSubstr("tokenizer.ggml.scores"));
}

// As transformers reads this file, and an implementation of its own.
TEST(SmolLm2Tokenizer, GivesTheKnownIds) {
  const char* path = std::getenv("KVC_SMOLLM2_GGUF");
  if (!path) GTEST_SKIP() << "KVC_SMOLLM2_GGUF names no file";
  const auto tokenizer = kvc::Tokenizer::load(path);
  const std::pair<std::string, Ids> golden[] = {
      {"Hello world", {19556, 905}},
      {"  two  spaces\n\tand 2024 tabs", {216, 827, 216, 5600, 198, 197, 397, 216, 34, 32, 34, 36, 29416}},
      {"<|im_start|>user\nWhat is 12*34?<|im_end|>\n", {1, 4093, 198, 1780, 314, 216, 33, 34, 26, 35, 36, 47, 2, 198}},
      {"naïve café — 東京 🙂", {3546, 46494, 37366, 1841, 17097, 247, 126, 16736, 122, 47526}},
      {"don't I'LL we've", {12420, 982, 339, 23, 16421, 392, 3543}}};
  for (const auto& [text, ids] : golden) {
    EXPECT_EQ(tokenizer.encode(text, true), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids, false), text);
  }
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.decode(golden[2].second, true), "user\nWhat is 12*34?\n");
}

}  // namespace
