#include "tokenizer/special_texts.h"

#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/utf8.h"
#include "tokenizer/special_tokens.h"

namespace kvc {
namespace {

using Texts = std::map<std::string, std::optional<std::string>>;

Texts read_gguf(const std::filesystem::path& path) {
  constexpr const char* kIds[] = {"bos", "eos", "unknown", "seperator", "padding", "cls", "mask"};  // so spelled there
  const GgufFile file(path);
  const std::string prefix = "tokenizer.ggml.";
  const auto& tokens = file.texts(prefix + "tokens");
  Texts texts;
  for (size_t i = 0; i < std::size(kSpecialTokenNames); ++i) {
    const auto key = prefix + kIds[i] + "_token_id";
    if (!file.has(key)) continue;
    auto& text = texts[kSpecialTokenNames[i]];
    const auto id = file.integer(key);
    KVC_CHECK(id >= 0 && id < static_cast<int64_t>(tokens.size()), path.string(), ": ", key, " is ", id,
              ", expected a token's id, 0 to ", tokens.size() - 1);
    text = tokens[static_cast<size_t>(id)];
    KVC_CHECK(is_utf8(*text), path.string(), ": token ", id, " is ", in_quotes(*text), ", expected UTF-8");
  }
  return texts;
}

// A token is named by its text or by an object with a "content".
std::optional<std::string> text_of(const JsonObject& file, const char* name) {
  if (!file.has(name)) return std::nullopt;
  if (file.at(name).is_string()) return file.text(name);
  return file.object(name).text("content");
}

}  // namespace

Texts special_token_texts(const std::filesystem::path& model) {
  if (is_gguf(model)) return read_gguf(model);
  Texts texts;
  bool is_listed = false;  // by the first file, which then is the newer one
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto path = model / name;
    if (!std::filesystem::exists(path)) continue;
    const auto json = read_json(path);
    const JsonObject file(json, path.string());
    const bool wins = !is_listed;
    is_listed |= file.has("added_tokens_decoder");
    for (const char* token : kSpecialTokenNames) {
      if (!json.contains(token)) continue;
      auto text = text_of(file, token);
      if (!texts.contains(token) || (wins && text)) texts[token] = std::move(text);
    }
  }
  return texts;
}

}  // namespace kvc
