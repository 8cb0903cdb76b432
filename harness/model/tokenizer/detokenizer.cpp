#include "tokenizer/detokenizer.h"

#include "tokenizer_steps/component.h"

namespace kvc {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {
  for (const auto& make : tokenizer.parts_.decoder) steps_.push_back(make());
}

std::string Detokenizer::pass_(std::vector<std::string> tokens, size_t first_step) {
  for (size_t i = first_step; i < steps_.size() && !tokens.empty(); ++i) {
    std::vector<std::string> out;
    for (auto& token : tokens) steps_[i]->add(std::move(token), out);
    tokens = std::move(out);
    size_t n_bytes = 0;
    for (const auto& token : tokens) n_bytes += token.size();
    check_growth(n_bytes_, n_bytes);
  }
  std::string text;
  for (const auto& token : tokens) text += token;
  return text;
}

std::string Detokenizer::add(int64_t id) {
  const auto* token = tokenizer_.text_of_(id, skip_special_tokens_);
  if (token) n_bytes_ += token->size() + 1;  // a token without text may get a space
  return token ? pass_({*token}, 0) : "";
}

std::string Detokenizer::finish() {
  std::string text;
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::vector<std::string> rest;
    steps_[i]->finish(rest);
    text += pass_(std::move(rest), i + 1);
  }
  return text;
}

}  // namespace kvc
