#include "prompt/chat_form.h"

#include <algorithm>

#include "jinja/template.h"
#include "kvc/check.h"
#include "task/format_version.h"
#include "text/nearest.h"
#include "text/yaml_read.h"

namespace kvc {

ChatForm load_chat_form(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kFormatVersion, kFormatVersion);
  ChatForm form;
  form.name = yaml_file.stem().string();
  form.summary = map.required_string("summary");
  if (const auto bos = map.optional("bos")) form.bos = bos->string();
  if (form.bos) form.tokens.push_back(*form.bos);
  if (const auto tokens = map.optional("tokens")) {
    for (const auto& token : tokens->sequence()) {
      form.tokens.push_back(token.string());
      if (form.tokens.back().empty()) token.fail(token.name(), " is empty, expected a token's text");
    }
  }
  const auto text = map.required("template");
  form.text = text.string();
  if (form.text.empty()) text.fail(text.name(), " is empty, expected a chat template");
  map.reject_unknown();
  try {
    jinja::Template{form.text};
  } catch (const Error& e) {
    text.fail(text.name(), ": ", e.what());
  }
  return form;
}

std::vector<std::string> chat_form_names(const std::filesystem::path& dir) {
  KVC_CHECK(std::filesystem::is_directory(dir), "there is no folder of chat formats '", dir.string(), "'");
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    if (file.is_regular_file() && file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ChatForm find_chat_form(const std::filesystem::path& dir, const std::string& name) {
  const auto names = chat_form_names(dir);
  KVC_CHECK(std::find(names.begin(), names.end(), name) != names.end(), unknown_name("chat template", name, names));
  return load_chat_form(dir / (name + ".yaml"));
}

}  // namespace kvc
