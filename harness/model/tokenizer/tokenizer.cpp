#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/model_folder.h"
#include "text/utf8.h"
#include "tokenizer/detokenizer.h"

namespace kvc {

Tokenizer::Tokenizer(TokenizerParts parts, const std::string& where)
    : parts_(std::move(parts)), n_tokens_(parts_.model->size()) {
  for (const auto& [text, id] : parts_.added.ids()) {
    const auto in_model = parts_.model->id(text);
    KVC_CHECK(!in_model || *in_model == id, where, ": added token ", in_quotes(text), " has id ", id,
              ", in the vocabulary ", in_model.value_or(-1));
    if (!in_model) ++n_tokens_;
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& model) {
  if (is_gguf(model)) return Tokenizer(read_gguf_tokenizer(GgufFile(model)), model.string());
  const auto has = [&model](const char* name) { return lists(model, name); };
  if (has("tokenizer.json")) return Tokenizer(read_tokenizer_json(model / "tokenizer.json"), model.string());
  if (has("tokenizer.model")) return Tokenizer(read_sentencepiece(model / "tokenizer.model"), model.string());
  if (!has("vocab.json") || !has("merges.txt")) {
    refuse_missing(model, "tokenizer; expected tokenizer.json, tokenizer.model, or vocab.json with merges.txt");
  }
  return Tokenizer(read_vocab_and_merges(model), model.string());
}

std::vector<int64_t> Tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  check_utf8(utf8, "tokenizer: text");
  std::vector<int64_t> ids;
  if (add_special_tokens) ids = parts_.before;
  for (const auto& segment : parts_.added.split(utf8, parts_.normalizer)) {
    if (segment.id) {
      ids.push_back(*segment.id);
    } else {
      parts_.model->encode(segment.text, segment.at_start, ids);
    }
  }
  if (add_special_tokens) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const int64_t id : ids) text += detokenizer.add(id);
  return text += detokenizer.finish();
}

std::string Tokenizer::answer(std::span<const int64_t> ids) const {
  const auto channel = token_id("<|channel|>"), message = token_id("<|message|>");
  const auto find = [&](auto from, int64_t id) { return std::find(from, ids.end(), id); };
  auto begin = channel && message ? find(ids.begin(), *channel) : ids.end();
  if (begin == ids.end()) return decode(ids, true);
  std::string final_text;
  for (; begin != ids.end(); begin = find(begin, *channel)) {
    const auto text = find(++begin, *message);
    if (text == ids.end()) break;
    const auto end = std::find_if(text + 1, ids.end(), [&](int64_t id) { return parts_.added.is_special(id); });
    if (decode({begin, text}, true) == "final") final_text = decode({text + 1, end}, true);
  }
  return final_text;
}

const std::string* Tokenizer::text_of_(int64_t id, bool skip_special_tokens) const {
  KVC_CHECK(id >= 0, "tokenizer: id ", id, ", expected 0 or more");
  if (skip_special_tokens && parts_.added.is_special(id)) return nullptr;
  const auto added = parts_.added.texts().find(id);
  return added != parts_.added.texts().end() ? &added->second : parts_.model->token(id);
}

void Tokenizer::check_rows(int64_t n_rows, const std::string& where) const {
  KVC_CHECK(parts_.model->size() <= n_rows, where, ": the tokenizer's vocabulary has ", parts_.model->size(),
            " tokens, the model's embedding ", n_rows, " rows: they are of two models");
}

std::optional<int64_t> Tokenizer::token_id(std::string_view token) const {
  const auto added = parts_.added.ids().find(token);
  return added != parts_.added.ids().end() ? std::optional(added->second) : parts_.model->id(token);
}

}  // namespace kvc
