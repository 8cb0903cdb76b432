// The chat template that a model's prompts get, and a turn in it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "jinja/template.h"
#include "prompt/chat_settings.h"

namespace kvc {

struct ChatTemplate {
  std::string name;  // "own": the model's; or a name of prompts/chat
  std::string from;  // "tokenizer_config.json: chat_template", "prompts/chat/llama2.yaml"
  std::shared_ptr<const jinja::Template> text;
  jinja::Given given;  // all but messages
};

// Nothing where the settings say none, and where they say auto of a model without a template. `root` holds
// prompts/chat. Throws Error for an unknown name, for a template that is no Jinja or holds what is not supported, and
// where a token that a named format needs is no token of the model: a chat model without its format would be measured
// as another one.
std::optional<ChatTemplate> choose_chat_template(const ChatSettings& settings, const std::filesystem::path& model,
                                                 const std::filesystem::path& root);

// All that decides what a prompt becomes in it: name, hash of its text, options, and the date where it asks for one.
nlohmann::json describe_chat(const ChatTemplate& chat, const ChatSettings& settings);

// What a prompt becomes.
struct ChatText {
  std::string text;
  bool add_special_tokens = true;  // of a turn false: a template prints all that the model gets
};

// The prompt as a user's turn that the model is to answer; system "" gives no system message. Without a template the
// prompt itself. Throws Error with the template's line, and with its own words where it raises them.
ChatText render_turn(const std::optional<ChatTemplate>& chat, const std::string& system, const std::string& prompt);

}  // namespace kvc
