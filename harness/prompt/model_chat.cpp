#include "prompt/model_chat.h"

#include <nlohmann/json.hpp>

#include "gguf/gguf_file.h"
#include "gguf/json_reader.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/utf8.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

// One text, or since transformers 4.40 a list [{name, template}, ...].
std::string default_template(const JsonObject& config) {
  const auto& value = config.at("chat_template");
  if (!value.is_array()) return config.text("chat_template");
  for (const auto& entry : value) {
    const JsonObject named(entry, config.where("chat_template"));
    if (named.text("name") == "default") return named.text("template");
  }
  throw Error(concat(config.where(), ": chat_template is ", brief(value), ", expected one named 'default' among them"));
}

std::optional<std::string> read_gguf_template(const fs::path& path) {
  const std::string key = "tokenizer.chat_template";
  const GgufFile file(path);
  if (!file.has(key) || file.text(key).empty()) return std::nullopt;
  KVC_CHECK(is_utf8(file.text(key)), path.string(), ": ", key, " is ", in_quotes(file.text(key)), ", expected UTF-8");
  return file.text(key);
}

// Tokens that the model lacks would be spelled out, and the format would mean nothing.
void check_tokens(const ChatTemplate& chat, const fs::path& model) {
  const auto tokenizer = Tokenizer::load(model);
  for (const auto& token : chat.tokens) {
    const auto id = tokenizer.token_id(token);
    KVC_CHECK(id && tokenizer.encode(token, false) == std::vector<int64_t>{*id}, "chat template '", chat.name, "': '",
              token, "' is no special token of the model '", model.string(), "'");
  }
}

}  // namespace

std::optional<std::string> read_model_template(const fs::path& model) {
  if (is_gguf(model)) return read_gguf_template(model);
  std::string text;
  const auto file = model / "chat_template.jinja", config_file = model / "tokenizer_config.json";
  if (fs::exists(file)) {
    text = read_file(file);
  } else if (fs::exists(config_file)) {
    const auto json = read_json(config_file);
    const JsonObject config(json, config_file.string());
    if (config.has("chat_template")) text = default_template(config);
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<ChatTemplate> choose_chat_template(const std::string& setting, const fs::path& model,
                                                 const fs::path& root) {
  if (setting == "none") return std::nullopt;
  const auto model_template = setting == "auto" ? read_model_template(model) : std::nullopt;
  if (setting == "auto" && !model_template) return std::nullopt;
  const auto known = load_chat_templates(root / "prompts" / "chat");
  std::optional<ChatTemplate> chat;
  try {
    chat = model_template ? recognize_chat_template(known, *model_template) : find_chat_template(known, setting);
  } catch (const Error& e) {
    throw Error(concat("chat_template ", setting, ", model '", model.string(), "': ", e.what()));
  }
  check_tokens(*chat, model);
  return chat;
}

ChatText render_turn(const std::optional<ChatTemplate>& chat, const std::string& system, const std::string& prompt) {
  if (!chat) return {prompt};
  return {render_chat(*chat, system, prompt), chat->bos.empty()};
}

}  // namespace kvc
