#include "target.h"
#include "text/files.h"
#include "text/json_reader.h"
#include "text/utf8.h"
#include "tokenizer/tokenizer.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};

// Every component that is known, around a vocabulary of a few letters.
std::vector<json> seeds() {
  std::vector<json> all;
  for (const char* name : {"added", "demo_like", "spm"}) {
    all.push_back(kvc::read_json(fs::path(KVC_TEST_DATA) / "model" / name / "tokenizer.json"));
  }
  const json model = {
      {"type", "BPE"},
      {"unk_token", "<unk>"},
      {"byte_fallback", true},
      {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"\u2581", 4}, {"<0x0A>", 5}, {"<s>", 6}}},
      {"merges", {"a b"}}};
  const json added = {{{"id", 6}, {"content", "<s>"}, {"special", true}, {"lstrip", true}, {"normalized", false}},
                      {{"id", 7}, {"content", " x"}, {"rstrip", true}, {"single_word", true}, {"normalized", true}}};
  const json replace = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", "\u2581"}};
  const json around = {{"type", "TemplateProcessing"},
                       {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                       {"special_tokens", {{"<s>", {{"ids", {6}}}}}}};
  const auto sequence = [](const char* field, const json& parts) { return json{{"type", "Sequence"}, {field, parts}}; };
  const auto of = [](const char* type) { return json{{"type", type}}; };
  const json behavior = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "MergedWithNext"}};
  const json trim = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  all.push_back(
      {{"model", model},
       {"added_tokens", added},
       {"normalizer", sequence("normalizers", {replace,
                                               of("NFKC"),
                                               of("Lowercase"),
                                               of("StripAccents"),
                                               trim,
                                               {{"type", "Prepend"}, {"prepend", "\u2581"}}})},
       {"pre_tokenizer",
        sequence("pretokenizers", {behavior, of("Digits"), of("Punctuation"), of("WhitespaceSplit"), of("Metaspace")})},
       {"post_processor", around},
       {"decoder", sequence("decoders", {replace,
                                         of("ByteFallback"),
                                         of("Fuse"),
                                         of("Metaspace"),
                                         {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}}})}});
  all.push_back({{"model", model}, {"pre_tokenizer", kByteLevel}, {"decoder", kByteLevel}, {"post_processor", around}});
  return all;
}

std::vector<std::string> words() {
  return {"type",
          "BPE",
          "Unigram",
          "WordPiece",
          "Sequence",
          "ByteLevel",
          "Metaspace",
          "Split",
          "Digits",
          "Punctuation",
          "Whitespace",
          "WhitespaceSplit",
          "CharDelimiterSplit",
          "NFC",
          "NFKD",
          "Lowercase",
          "StripAccents",
          "Strip",
          "Prepend",
          "Replace",
          "ByteFallback",
          "Fuse",
          "TemplateProcessing",
          "String",
          "Regex",
          "pattern",
          "content",
          "Removed",
          "Isolated",
          "MergedWithPrevious",
          "MergedWithNext",
          "Contiguous",
          "prepend",
          "replacement",
          "prepend_scheme",
          "first",
          "never",
          "ignore_merges",
          "fuse_unk",
          "unk_token",
          "<unk>",
          "<s>",
          "a",
          "b",
          " ",
          "(a+)+$",
          "(?=a\\K)",
          "a\\Kb",
          "\\C",
          "(?<=\\C)b",
          "[^\\W]",
          "(?R)?a",
          "(a{1,999}){1,999}",
          "(?C1)a",
          "(*LIMIT_MATCH=1)a",
          "(*UTF)(*UCP)a",
          "\\p{Nope}",
          "[",
          "\\",
          "(?i:'s|'t)|\\p{L}+",
          "^",
          "$",
          "\\b",
          "()*",
          "((a|b)*)*c",
          "(?<n>a)\\k<n>",
          "\\x{10FFFF}",
          "\\x{D800}",
          "\\Q",
          "\\E",
          "(*ACCEPT)",
          "(*COMMIT)",
          "(?s).*"};
}

// What the folder of a tokenizer without tokenizer.json holds.
void copy_files(const char* name, const fs::path& dir) {
  for (const auto& file : fs::directory_iterator(fs::path(KVC_TEST_DATA) / "model" / name)) {
    fs::copy_file(file.path(), dir / file.path().filename(), fs::copy_options::overwrite_existing);
  }
}

json seed_of(const char* name, const char* file) {
  return kvc::read_file(fs::path(KVC_TEST_DATA) / "model" / name / file);
}

void write_one_of_three(const fs::path& dir, std::string text, Mutator& mutator) {
  const char* names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
  for (const char* name : names) write_file(dir / name, "{}");
  write_file(dir / names[mutator.below(3)], text);
}

std::vector<json> special_seeds() {
  const json token = {{"content", "<s>"}, {"lstrip", true}, {"special", true}, {"normalized", false}};
  return {json{{"add_bos_token", true},
               {"bos_token", "a"},
               {"eos_token", token},
               {"unk_token", nullptr},
               {"added_tokens_decoder", {{"5000", token}, {"5001", {{"content", "<x>"}}}}}},
          json{{"additional_special_tokens", {"<s>", token}}, {"pad_token", "b"}, {"add_prefix_space", true}},
          json{{"<s>", 5000}, {"<pad>", 5001}}};
}

}  // namespace

void read_tokenizer(const std::filesystem::path& model) {
  const auto tokenizer = kvc::Tokenizer::load(model);
  promise(tokenizer.vocab_size() >= 0, "the vocabulary's size is negative");
  for (const std::string text :
       {"", "a", "ab b\n  aab <s> x  x12 3!", "na\u00efve \u4f60\u597d \U0001F600 e\u0301 \u2581\t\r\n",
        "the quick brown fox isn't 1234567 <mask> <|eot|>"}) {
    const auto ids = tokenizer.encode(text, true);
    for (const int64_t id : ids) promise(id >= 0 && id <= INT32_MAX, "an id is out of range");
    for (const bool skip : {false, true}) promise(kvc::is_utf8(tokenizer.decode(ids, skip)), "a text is not UTF-8");
  }
  const std::vector<int64_t> some = {0, 1, 2, 3, 4, 5, 6, 7, 100, 300, INT32_MAX};
  promise(kvc::is_utf8(tokenizer.decode(some, false)), "a text is not UTF-8");
}

Target special_target() {
  return {"special",
          2,
          special_seeds(),
          words(),
          [](const fs::path& dir) { copy_files("gpt2", dir); },
          write_one_of_three,
          read_tokenizer};
}

Target merges_target() {
  return {"merges",
          2,
          {seed_of("gpt2", "merges.txt")},
          words(),
          [](const fs::path& dir) { copy_files("gpt2", dir); },
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "merges.txt", text); },
          read_tokenizer};
}

Target pieces_target() {
  return {"pieces",
          3,
          {seed_of("pieces", "tokenizer.model")},
          words(),
          [](const fs::path& dir) { copy_files("pieces", dir); },
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "tokenizer.model", text); },
          read_tokenizer};
}

Target tokenizer_target() {
  return {"tokenizer",
          6,
          seeds(),
          words(),
          [](const fs::path&) {},
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "tokenizer.json", text); },
          read_tokenizer};
}

}  // namespace kvc_fuzz
