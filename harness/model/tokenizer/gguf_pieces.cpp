#include <algorithm>
#include <cmath>

#include "gguf/protobuf_fields.h"
#include "kvc/check.h"
#include "text/utf8.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer_steps/decoder_steps.h"
#include "tokenizer_steps/normalizer.h"

namespace kvc {
namespace {

constexpr size_t kBytes = 256;

// As floats, or as the integers that earlier converters wrote.
std::vector<double> stored_scores(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  const auto* whole = found == file.metadata().end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
  return whole ? std::vector<double>(whole->begin(), whole->end()) : file.numbers(key);
}

std::vector<float> read_scores(const GgufVocabulary& vocabulary) {
  const std::string key = "tokenizer.ggml.scores";
  const auto& path = vocabulary.file.path();
  const auto numbers = stored_scores(vocabulary.file, key);
  const auto n_tokens = vocabulary.tokens.size();
  KVC_CHECK(numbers.size() >= n_tokens, path, ": ", key, " has ", numbers.size(), " values, expected ", n_tokens,
            ", one a token");
  std::vector<float> scores;
  for (size_t i = 0; i < n_tokens; ++i) {
    scores.push_back(static_cast<float>(numbers[i]));
    KVC_CHECK(std::isfinite(scores.back()), path, ": ", key, "[", i, "] is ", numbers[i], ", expected a finite number");
  }
  return scores;
}

// Whether characters that no piece has become bytes.
bool has_bytes(const GgufVocabulary& vocabulary) {
  size_t n = 0;
  for (size_t i = 0; i < vocabulary.types.size(); ++i) {
    if (vocabulary.types[i] != TokenType::byte) continue;
    ++n;
    KVC_CHECK(byte_of(vocabulary.tokens[i]) >= 0, vocabulary.file.path(), ": tokenizer.ggml.tokens[", i, "] is ",
              in_quotes(vocabulary.tokens[i]), ", a byte by its type; expected <0x00> to <0xFF>");
  }
  KVC_CHECK(n == 0 || n == kBytes, vocabulary.file.path(), ": tokenizer.ggml.token_type is 6 (a byte) ", n,
            " times, expected ", kBytes, " or none");
  return n > 0;
}

// Field numbers of sentencepiece_model.proto: ModelProto, its SentencePiece, TrainerSpec and NormalizerSpec.
std::string write_pieces(const GgufVocabulary& vocabulary) {
  const auto scores = read_scores(vocabulary);
  std::string model;
  for (size_t i = 0; i < scores.size(); ++i) {
    auto type = vocabulary.types[i];
    if (type == TokenType::user_defined) type = TokenType::control;  // cut out of the text before: never to be found
    model += protobuf_bytes(1, protobuf_bytes(1, vocabulary.tokens[i]) + protobuf_float(2, scores[i]) +
                                   protobuf_integer(3, static_cast<uint64_t>(type)));
  }
  return model;
}

}  // namespace

void settle_unknown(GgufVocabulary& vocabulary) {
  auto& types = vocabulary.types;
  const auto first = std::find(types.begin(), types.end(), TokenType::unknown) - types.begin();
  const auto named = gguf_special_id(vocabulary, "unknown_token_id");
  const auto n_unknown = std::count(types.begin(), types.end(), TokenType::unknown);
  KVC_CHECK(n_unknown == 1 || named, vocabulary.file.path(), ": tokenizer.ggml.token_type is 2 ", n_unknown,
            " times, and there is no tokenizer.ggml.unknown_token_id; expected one unknown token");
  std::replace(types.begin(), types.end(), TokenType::unknown, TokenType::unused);
  types[static_cast<size_t>(n_unknown == 1 ? first : *named)] = TokenType::unknown;
}

TokenizerParts read_gguf_pieces(const GgufVocabulary& vocabulary) {
  const auto& file = vocabulary.file;
  const bool adds_space = gguf_flag(file, "tokenizer.ggml.add_space_prefix", true);
  const bool removes_spaces = gguf_flag(file, "tokenizer.ggml.remove_extra_whitespaces", false);
  const auto unknown = static_cast<uint64_t>(
      std::find(vocabulary.types.begin(), vocabulary.types.end(), TokenType::unknown) - vocabulary.types.begin());
  constexpr uint64_t kBpe = 2;
  const auto trainer =
      protobuf_integer(3, kBpe) + protobuf_integer(35, has_bytes(vocabulary)) + protobuf_integer(40, unknown);
  const auto normalizer = protobuf_bytes(1, "identity") + protobuf_integer(3, adds_space) +
                          protobuf_integer(4, removes_spaces) + protobuf_integer(5, true);  // spaces become U+2581
  TokenizerParts parts;
  // To sentencepiece U+2581 is a space, also where it finds user-defined tokens, which files hold with spaces.
  parts.normalizer = parse_normalizer({{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                                      file.path() + ": tokenizer.ggml");
  parts.decoder = sentencepiece_decoder(adds_space, removes_spaces);
  parts.model =
      load_sentencepieces(write_pieces(vocabulary) + protobuf_bytes(2, trainer) + protobuf_bytes(3, normalizer),
                          file.path() + ": tokenizer.ggml.tokens");
  return parts;
}

}  // namespace kvc
