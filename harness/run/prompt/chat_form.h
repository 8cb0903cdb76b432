// Chat formats that a user names, for models that bring no template and for replications: prompts/chat/<name>.yaml
// holds a template and the tokens that it needs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

struct ChatForm {
  std::string name;  // the file's stem
  std::string summary;
  std::optional<std::string> bos;   // the template's bos_token; nothing: the model's
  std::vector<std::string> tokens;  // texts, `bos` among them, that mean nothing unless each is one token of the model
  std::string text;                 // Jinja
};

// Throws Error file:line:column.
ChatForm load_chat_form(const std::filesystem::path& yaml_file);

// <dir>/<name>.yaml; throws Error with the nearest and the known names where there is none.
ChatForm find_chat_form(const std::filesystem::path& dir, const std::string& name);

// The names of all <dir>/*.yaml, sorted.
std::vector<std::string> chat_form_names(const std::filesystem::path& dir);

}  // namespace kvc
