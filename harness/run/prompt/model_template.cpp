#include "prompt/model_template.h"

#include <nlohmann/json.hpp>

#include "gguf/gguf_file.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json_reader.h"
#include "text/utf8.h"

namespace kvc {
namespace {

namespace fs = std::filesystem;

// One text, a list [{name, template}, ...], or an object of texts by name.
std::string default_template(const JsonObject& config) {
  const auto& value = config.at("chat_template");
  if (value.is_object() && value.contains("default")) return config.object("chat_template").text("default");
  if (!value.is_array() && !value.is_object()) return config.text("chat_template");
  if (value.is_array()) {
    for (const auto& entry : value) {
      const JsonObject named(entry, config.where("chat_template"));
      if (named.text("name") == "default") return named.text("template");
    }
  }
  throw Error(concat(config.where(), ": chat_template is ", brief(value), ", expected one named 'default' among them"));
}

std::string read_gguf_template(const fs::path& path, const std::string& key) {
  const GgufFile file(path);
  if (!file.has(key)) return "";
  KVC_CHECK(is_utf8(file.text(key)), path.string(), ": ", key, " is ", in_quotes(file.text(key)), ", expected UTF-8");
  return file.text(key);
}

std::string read_json_template(const fs::path& path) {
  const auto json = read_json(path);
  const JsonObject config(json, path.string());
  return config.has("chat_template") ? default_template(config) : "";
}

}  // namespace

std::optional<ModelTemplate> read_model_template(const fs::path& model) {
  ModelTemplate found;
  if (is_gguf(model)) {
    found.from = "tokenizer.chat_template";
    found.text = read_gguf_template(model, found.from);
  }
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json", "chat_template.json"}) {
    const auto path = model / name;
    if (is_gguf(model) || !found.text.empty() || !fs::exists(path)) continue;
    const bool is_json = path.extension() == ".json";
    found.from = is_json ? concat(name, ": chat_template") : name;
    found.text = is_json ? read_json_template(path) : read_file(path);
    check_utf8(found.text, path.string());
  }
  return found.text.empty() ? std::nullopt : std::optional(found);
}

}  // namespace kvc
