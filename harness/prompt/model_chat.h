// Which chat format a model's prompts get.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "task/chat_template.h"

namespace kvc {

// The Jinja text that a model brings: a folder's chat_template.jinja, else tokenizer_config.json's chat_template (of a
// list of named ones, `default`); a .gguf file's tokenizer.chat_template; or nothing. Throws Error naming the file and
// what it holds.
std::optional<std::string> read_model_template(const std::filesystem::path& model);

// `setting` is a template's name, `none`, or `auto`: the one that the model's own template is, none where it has
// no template. `root` holds prompts/chat. Throws Error for a name or a model's template that is not known, and where a
// token that the format needs is no token of the model.
std::optional<ChatTemplate> choose_chat_template(const std::string& setting, const std::filesystem::path& model,
                                                 const std::filesystem::path& root);

// What a prompt becomes.
struct ChatText {
  std::string text;
  bool add_special_tokens = true;  // false where the text itself begins with the BOS token: it stands once
};
ChatText render_turn(const std::optional<ChatTemplate>& chat, const std::string& system, const std::string& prompt);

}  // namespace kvc
