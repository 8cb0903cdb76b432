// The Jinja text that a model brings for chats.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kvc {

struct ModelTemplate {
  std::string text;
  std::string from;  // "chat_template.jinja", "tokenizer_config.json: chat_template"
};

// Of a folder the first that is there of chat_template.jinja, tokenizer_config.json's chat_template (of several with
// names, `default`) and chat_template.json's; of a .gguf file tokenizer.chat_template; or nothing. Throws Error naming
// the file and what it holds.
std::optional<ModelTemplate> read_model_template(const std::filesystem::path& model);

}  // namespace kvc
