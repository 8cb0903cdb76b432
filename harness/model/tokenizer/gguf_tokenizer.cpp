#include "tokenizer/gguf_tokenizer.h"

#include <unordered_map>

#include "gguf/end_tokens.h"
#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "tokenizer_steps/bpe_model.h"
#include "tokenizer_steps/decoder_steps.h"

namespace kvc {
namespace {

using nlohmann::json;

const std::string kPrefix = "tokenizer.ggml.";

void check_tokens(const std::vector<std::string>& tokens, const std::string& path) {
  KVC_CHECK(!tokens.empty(), path, ": ", kPrefix, "tokens is empty, expected the vocabulary");
  std::unordered_map<std::string_view, size_t> seen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    KVC_CHECK(is_utf8(tokens[i]), path, ": ", kPrefix, "tokens[", i, "] is ", in_quotes(tokens[i]), ", expected UTF-8");
    if (tokens[i].empty()) continue;  // of no use, and converters leave more than one
    const auto [first, is_new] = seen.emplace(tokens[i], i);
    KVC_CHECK(is_new, path, ": ", kPrefix, "tokens[", i, "] is ", in_quotes(tokens[i]), ", and so is tokens[",
              first->second, "]; expected no two the same");
  }
}

// Where no types are given, all are normal but the bytes of sentencepiece's vocabularies.
std::vector<TokenType> guess_types(const GgufFile& file, const std::vector<std::string>& tokens) {
  std::vector<TokenType> types(tokens.size(), TokenType::normal);
  if (file.text(kPrefix + "model") != "llama") return types;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (byte_of(tokens[i]) >= 0) types[i] = TokenType::byte;
  }
  return types;
}

std::vector<TokenType> read_types(const GgufFile& file, const std::vector<std::string>& tokens) {
  const auto key = kPrefix + "token_type";
  if (!file.has(key)) return guess_types(file, tokens);
  const auto& numbers = file.integers(key);
  const auto n_tokens = tokens.size();
  KVC_CHECK(numbers.size() >= n_tokens, file.path(), ": ", key, " has ", numbers.size(), " values, expected ", n_tokens,
            ", one a token");
  std::vector<TokenType> types;
  for (size_t i = 0; i < n_tokens; ++i) {
    KVC_CHECK(numbers[i] >= 1 && numbers[i] <= 6, file.path(), ": ", key, "[", i, "] is ", numbers[i],
              ", expected 1 to 6");
    types.push_back(static_cast<TokenType>(numbers[i]));
  }
  return types;
}

void check_embedding(const GgufFile& file, size_t n_tokens) {
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.shape.empty()) return;
  const auto n_rows = embedding->second.shape.front();
  KVC_CHECK(n_rows == static_cast<int64_t>(n_tokens), file.path(), ": ", kPrefix, "tokens has ", n_tokens,
            " values, expected ", n_rows, ", one a row of token_embd.weight");
}

// Phi-3's tokenizer drops the spaces behind these tokens; no key of the format can say so.
bool drops_spaces_behind(const GgufVocabulary& vocabulary, const std::string& token) {
  const std::string architecture = "general.architecture";
  return vocabulary.file.has(architecture) && vocabulary.file.text(architecture) == "phi3" &&
         vocabulary.file.text(kPrefix + "model") == "llama" && token != "<s>" && token != "<unk>" &&
         token != "<|endoftext|>";
}

void add_tokens(const GgufVocabulary& vocabulary, TokenizerParts& parts) {
  auto types = vocabulary.types;
  for (const char* name : {"bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id"}) {
    if (const auto id = gguf_special_id(vocabulary, name)) types[static_cast<size_t>(*id)] = TokenType::control;
  }
  for (const int64_t id : gguf_end_tokens(vocabulary.file)) {  // no answer says how it ended
    if (id >= 0 && id < static_cast<int64_t>(types.size())) types[static_cast<size_t>(id)] = TokenType::control;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == TokenType::unused) parts.added.mark_special(static_cast<int64_t>(i));
    const bool is_special = types[i] == TokenType::control || types[i] == TokenType::unknown;
    const auto& text = vocabulary.tokens[i];
    if ((!is_special && types[i] != TokenType::user_defined) || text.empty()) continue;
    AddedToken token{static_cast<int64_t>(i), text, is_special};
    token.is_normalized = !is_special && vocabulary.file.text(kPrefix + "model") == "llama";
    token.rstrip = drops_spaces_behind(vocabulary, text);
    parts.added.add(token, vocabulary.file.path() + ": " + kPrefix + "tokens", parts.normalizer);
  }
}

void add_around(const GgufVocabulary& vocabulary, const std::string& name, bool absent, std::vector<int64_t>& ids) {
  const auto flag = kPrefix + "add_" + name;
  if (!gguf_flag(vocabulary.file, flag, absent)) return;
  const auto id = gguf_special_id(vocabulary, name + "_id");
  KVC_CHECK(id, vocabulary.file.path(), ": ", flag, " is ", vocabulary.file.has(flag) ? "" : "absent, which means ",
            "true, but there is no ", kPrefix, name, "_id");
  ids.push_back(*id);
}

// A padded vocabulary's tokens of no use get no text, as ids beyond a vocabulary.
json model_json(const GgufVocabulary& vocabulary, bool ignores_merges) {
  json::object_t vocab;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.types[i] == TokenType::unused || vocabulary.tokens[i].empty()) continue;
    vocab.emplace(vocabulary.tokens[i], i);
  }
  const auto& texts = vocabulary.file.texts(kPrefix + "merges");
  for (size_t i = 0; i < texts.size(); ++i) {
    KVC_CHECK(is_utf8(texts[i]), vocabulary.file.path(), ": ", kPrefix, "merges[", i, "] is ", in_quotes(texts[i]),
              ", expected UTF-8");
  }
  json model{{"ignore_merges", ignores_merges}, {"merges", texts}};
  model["vocab"] = std::move(vocab);
  return model;
}

// Byte-level BPE. add_space_prefix is left alone, as llama.cpp leaves it: converters write it into every file.
TokenizerParts read_byte_level(const GgufVocabulary& vocabulary, const GgufPreTokenizer& pre_tokenizer) {
  const auto where = vocabulary.file.path() + ": tokenizer.ggml";
  const auto model = model_json(vocabulary, pre_tokenizer.ignores_merges);
  TokenizerParts parts;
  parts.normalizer = parse_normalizer(pre_tokenizer.normalizer, where);
  parts.decoder = parse_decoder({{"type", "ByteLevel"}}, where);
  parts.model = std::make_unique<BpeModel>(PreTokenizer::parse(pre_tokenizer.steps, where), JsonObject(model, where));
  return parts;
}

}  // namespace

GgufVocabulary read_gguf_vocabulary(const GgufFile& file) {
  const auto& tokens = file.texts(kPrefix + "tokens");
  check_tokens(tokens, file.path());
  check_embedding(file, tokens.size());
  return {file, tokens, read_types(file, tokens)};
}

bool gguf_flag(const GgufFile& file, const std::string& key, bool absent) {
  return file.has(key) ? file.boolean(key) : absent;
}

std::optional<int64_t> gguf_special_id(const GgufVocabulary& vocabulary, const std::string& name) {
  const auto id = gguf_named_token(vocabulary.file, name);
  const auto size = static_cast<int64_t>(vocabulary.tokens.size());
  KVC_CHECK(!id || (*id >= 0 && *id < size), vocabulary.file.path(), ": ", kPrefix, name, " is ", *id,
            ", expected a token's id, 0 to ", size - 1);
  return id;
}

TokenizerParts read_gguf_tokenizer(const GgufFile& file) {
  const auto& name = file.text(kPrefix + "model");
  KVC_CHECK(name == "gpt2" || name == "llama", file.path(), ": ", kPrefix, "model is ", in_quotes(name),
            ", supported: gpt2, llama");
  const bool by_score = name == "llama";
  const auto pre_tokenizer = by_score ? GgufPreTokenizer{.adds_bos = true} : read_gguf_pre_tokenizer(file);
  auto vocabulary = read_gguf_vocabulary(file);
  if (by_score) settle_unknown(vocabulary);
  auto parts = by_score ? read_gguf_pieces(vocabulary) : read_byte_level(vocabulary, pre_tokenizer);
  add_tokens(vocabulary, parts);
  add_around(vocabulary, "bos_token", pre_tokenizer.adds_bos, parts.before);
  add_around(vocabulary, "eos_token", false, parts.after);
  return parts;
}

}  // namespace kvc
