// Text to ids by byte-pair encoding, piece by piece.
#pragma once

#include "tokenizer_steps/bpe.h"
#include "tokenizer_steps/pre_tokenizer.h"
#include "tokenizer_steps/text_model.h"

namespace kvc {

class BpeModel : public TextModel {
 public:
  // `model` as in tokenizer.json.
  BpeModel(PreTokenizer pre_tokenizer, const JsonObject& model)
      : pre_tokenizer_(std::move(pre_tokenizer)), bpe_(Bpe::parse(model, pre_tokenizer_.ends_in_byte_alphabet())) {
    if (bpe_.takes_bytes()) pre_tokenizer_.drop_byte_alphabet();
  }

  void encode(std::string_view text, bool at_start, std::vector<int64_t>& ids) const override {
    PreTokenizer::Texts texts;
    for (const auto& piece : pre_tokenizer_.cut({text, at_start}, texts)) bpe_.encode(piece.text, ids);
  }
  std::optional<int64_t> id(std::string_view token) const override { return bpe_.id(token); }
  const std::string* token(int64_t id) const override { return bpe_.token(id); }
  int64_t size() const override { return bpe_.size(); }

 private:
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
};

}  // namespace kvc
