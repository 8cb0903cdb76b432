#include "prompt/model_chat.h"

#include "kvc/check.h"
#include "prompt/chat_form.h"
#include "prompt/model_template.h"
#include "text/files.h"
#include "text/utf8.h"
#include "tokenizer/special_texts.h"
#include "tokenizer/tokenizer.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Tokens that the model lacks would be spelled out, and the format would mean nothing.
void check_tokens(const ChatForm& form, const fs::path& model) {
  const auto tokenizer = Tokenizer::load(model);
  for (const auto& token : form.tokens) {
    const auto id = tokenizer.token_id(token);
    KVC_CHECK(id && tokenizer.encode(token, false) == std::vector<int64_t>{*id}, "'", token,
              "' is no special token of the model");
  }
}

// The variables that transformers' apply_chat_template gives.
jinja::Given given_of(const ChatSettings& settings, const fs::path& model, const std::optional<std::string>& bos) {
  jinja::Given given;
  given.today = jinja::parse_day(settings.date);
  const auto special = special_token_texts(model);
  for (const auto& [name, text] : special) {
    if (text) given.variables[name] = *text;
  }
  for (const char* name : {"bos_token", "eos_token"}) {
    if (special.contains(name)) continue;
    given.refused[name] =
        concat("the template asks for ", name, ", and the model's files do not say what it is: chat_options can");
  }
  if (bos) given.variables["bos_token"] = *bos;
  for (const char* name : {"tools", "documents"}) given.variables[name] = nullptr;
  for (const auto& [name, value] : settings.options.items()) given.variables[name] = value;
  given.variables["add_generation_prompt"] = true;
  return given;
}

ChatTemplate own_template(const ChatSettings& settings, const fs::path& model, const ModelTemplate& text) {
  ChatTemplate chat{"own", text.from, {}, given_of(settings, model, std::nullopt)};
  try {
    chat.text = std::make_shared<const jinja::Template>(text.text);
  } catch (const Error& e) {
    throw Error(concat(text.from, ": ", e.what(),
                       "; `chat_template: NAME` takes one of prompts/chat instead, `chat_template: none` no format"));
  }
  return chat;
}

ChatTemplate named_template(const ChatSettings& settings, const fs::path& model, const fs::path& root) {
  const auto form = find_chat_form(root / "prompts" / "chat", settings.form);
  check_tokens(form, model);
  return {form.name, concat("prompts/chat/", form.name, ".yaml"), std::make_shared<const jinja::Template>(form.text),
          given_of(settings, model, form.bos)};
}

}  // namespace

std::optional<ChatTemplate> choose_chat_template(const ChatSettings& settings, const fs::path& model,
                                                 const fs::path& root) {
  if (settings.form == "none") return std::nullopt;
  const bool is_own = settings.form == "auto" || settings.form == "own";
  try {
    if (!is_own) return named_template(settings, model, root);
    const auto text = read_model_template(model);
    KVC_CHECK(text || settings.form == "auto", "the model brings no chat template");
    return text ? std::optional(own_template(settings, model, *text)) : std::nullopt;
  } catch (const Error& e) {
    throw Error(concat("chat_template ", settings.form, ", model '", model.string(), "': ", e.what()));
  }
}

nlohmann::json describe_chat(const ChatTemplate& chat, const ChatSettings& settings) {
  nlohmann::json json{{"chat_template", chat.name}, {"chat_sha256", sha256_hex(chat.text->source())}};
  if (!settings.options.empty()) json["chat_options"] = settings.options;
  if (chat.text->source().find("strftime_now") != std::string::npos) json["chat_date"] = settings.date;
  return json;
}

ChatText render_turn(const std::optional<ChatTemplate>& chat, const std::string& system, const std::string& prompt) {
  if (!chat) return {prompt};
  auto given = chat->given;
  auto& messages = given.variables["messages"];
  if (!system.empty()) messages.push_back(ordered_json{{"role", "system"}, {"content", system}});
  messages.push_back(ordered_json{{"role", "user"}, {"content", prompt}});
  try {
    return {chat->text->render(given), false};
  } catch (const Error& e) {
    throw Error(concat("chat template ", chat->name, " (", chat->from, "): ", e.what()));
  }
}

}  // namespace kvc
