#include <cmath>

#include "gguf/protobuf_fields.h"
#include "kvc/check.h"
#include "text/utf8.h"
#include "tokenizer/gguf_tokenizer.h"
#include "tokenizer_steps/decoder_steps.h"

namespace kvc {
namespace {

constexpr size_t kBytes = 256;

std::vector<float> read_scores(const GgufVocabulary& vocabulary) {
  const std::string key = "tokenizer.ggml.scores";
  const auto& path = vocabulary.file.path();
  const auto& numbers = vocabulary.file.numbers(key);
  KVC_CHECK(numbers.size() == vocabulary.tokens.size(), path, ": ", key, " has ", numbers.size(), " values, expected ",
            vocabulary.tokens.size(), ", one a token");
  std::vector<float> scores;
  for (const double number : numbers) {
    scores.push_back(static_cast<float>(number));
    KVC_CHECK(std::isfinite(scores.back()), path, ": ", key, "[", scores.size() - 1, "] is ", number,
              ", expected a finite number");
  }
  return scores;
}

// sentencepiece wants exactly one.
size_t find_unknown(const GgufVocabulary& vocabulary) {
  std::optional<size_t> unknown;
  for (size_t i = 0; i < vocabulary.types.size(); ++i) {
    if (vocabulary.types[i] != TokenType::unknown) continue;
    KVC_CHECK(!unknown, vocabulary.file.path(), ": tokenizer.ggml.token_type[", i, "] is 2, and so is [", *unknown,
              "]; expected one unknown token");
    unknown = i;
  }
  if (unknown) return *unknown;
  const auto named = gguf_special_id(vocabulary, "unknown_token_id");
  KVC_CHECK(named, vocabulary.file.path(), ": no tokenizer.ggml.token_type is 2, and there is no ",
            "tokenizer.ggml.unknown_token_id; expected one unknown token");
  return static_cast<size_t>(*named);
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
std::string write_pieces(const GgufVocabulary& vocabulary, size_t unknown) {
  const auto scores = read_scores(vocabulary);
  std::string model;
  for (size_t i = 0; i < scores.size(); ++i) {
    auto type = i == unknown ? TokenType::unknown : vocabulary.types[i];
    if (type == TokenType::user_defined) type = TokenType::control;  // cut out of the text before: never to be found
    model += protobuf_bytes(1, protobuf_bytes(1, vocabulary.tokens[i]) + protobuf_float(2, scores[i]) +
                                   protobuf_integer(3, static_cast<uint64_t>(type)));
  }
  return model;
}

}  // namespace

TokenizerParts read_gguf_pieces(const GgufVocabulary& vocabulary) {
  const auto& file = vocabulary.file;
  const bool adds_space = gguf_flag(file, "tokenizer.ggml.add_space_prefix", true);
  const bool removes_spaces = gguf_flag(file, "tokenizer.ggml.remove_extra_whitespaces", false);
  const auto unknown = find_unknown(vocabulary);
  constexpr uint64_t kBpe = 2;
  const auto trainer =
      protobuf_integer(3, kBpe) + protobuf_integer(35, has_bytes(vocabulary)) + protobuf_integer(40, unknown);
  const auto normalizer = protobuf_bytes(1, "identity") + protobuf_integer(3, adds_space) +
                          protobuf_integer(4, removes_spaces) + protobuf_integer(5, true);  // spaces become U+2581
  TokenizerParts parts;
  parts.decoder = sentencepiece_decoder(adds_space, removes_spaces);
  parts.model = load_sentencepieces(
      write_pieces(vocabulary, unknown) + protobuf_bytes(2, trainer) + protobuf_bytes(3, normalizer),
      file.path() + ": tokenizer.ggml.tokens");
  return parts;
}

}  // namespace kvc
