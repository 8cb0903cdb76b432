// Chat formats as data: prompts/chat/<name>.yaml says how one turn of a user becomes the text that a chat model
// expects. What a user's text holds stays as it is: where it spells a token of the format, the tokenizer reads that
// token, as the models' own templates do.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/template.h"

namespace kvc {

struct ChatTemplate {
  // A model's own template (the Jinja text in its folder) is this one where it holds all of `has` and none of `lacks`.
  struct Marks {
    std::vector<std::string> has, lacks;
  };

  std::string name;  // the file's stem
  std::string summary;
  std::string bos;                  // the token that opens the text; "": the tokenizer adds what it adds
  std::vector<std::string> tokens;  // texts, `bos` among them, that mean nothing unless each is one token of the model
  std::vector<Marks> recognize;     // any of them; none: only by name
  // Variables: user, user_stripped, user_stripped_at_end, and system, system_stripped.
  Template user, system_and_user;
};

// Throws Error file:line:column.
ChatTemplate load_chat_template(const std::filesystem::path& yaml_file);

// All <dir>/*.yaml, sorted by name.
std::vector<ChatTemplate> load_chat_templates(const std::filesystem::path& dir);

// The one of that name; throws Error with the nearest and the known names.
const ChatTemplate& find_chat_template(const std::vector<ChatTemplate>& known, const std::string& name);

// The one that `model_template` is. Throws Error, naming the known ones, where none is or more than one: a chat model
// without its format would be measured as another model.
const ChatTemplate& recognize_chat_template(const std::vector<ChatTemplate>& known, std::string_view model_template);

// The prompt's text; system "" leaves the format's own default, if it has one.
std::string render_chat(const ChatTemplate& chat, std::string_view system, std::string_view user);

}  // namespace kvc
