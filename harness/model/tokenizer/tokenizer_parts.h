// What a tokenizer consists of, read from the files of a model folder. Each reader throws Error naming the file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "gguf/gguf_file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer_steps/decoder.h"
#include "tokenizer_steps/text_model.h"

namespace kvc {

struct TokenizerParts {
  std::vector<TextStep> normalizer;  // of the text between added tokens
  AddedTokens added;
  std::unique_ptr<const TextModel> model;
  Decoder decoder;
  std::vector<int64_t> before, after;  // special tokens around the text
};

TokenizerParts read_tokenizer_json(const std::filesystem::path& file);

// sentencepiece's tokenizer.model (unigram, BPE, word or char), with the special tokens that the folder names.
TokenizerParts read_sentencepiece(const std::filesystem::path& file);

// The byte-level BPE of GPT-2 and OPT: vocab.json and merges.txt, with the special tokens that the folder names;
// <|endoftext|> where it names none.
TokenizerParts read_vocab_and_merges(const std::filesystem::path& dir);

// The tokenizers "gpt2" (byte-level BPE) and "llama" (sentencepiece) of a GGUF file, from its metadata.
TokenizerParts read_gguf_tokenizer(const GgufFile& file);

// The bytes of a tokenizer.model as a model of text.
std::unique_ptr<const TextModel> load_sentencepieces(const std::string& model, const std::string& where);

}  // namespace kvc
