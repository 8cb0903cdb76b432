#include "checkpoint/completed_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/architecture.h"
#include "checkpoint/unsupported.h"
#include "kvc/check.h"

namespace kvc {
namespace {

using nlohmann::json;

// Classes of images and text whose text part is a decoder of its own.
constexpr std::array<std::string_view, 2> kWrappers = {"Gemma3ForConditionalGeneration",
                                                       "Mistral3ForConditionalGeneration"};

const Architecture* of_model_type(const json& text) {
  const auto type = text.value("model_type", json());
  for (const auto& row : architectures()) {
    if (type == row.model_type) return &row;
  }
  return nullptr;
}

// What the outer object says of both.
constexpr std::array kShared = {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings",
                                "quantization_config"};

json text_part(const JsonObject& config) {
  auto text = config.object("text_config").json();
  const auto* row = of_model_type(text);
  refuse_known_class(config);
  KVC_CHECK(row, config.where("text_config"), ".model_type is ", brief(text.value("model_type", json())),
            ", expected that of a supported decoder");
  text["architectures"] = {row->name};
  for (const char* name : kShared) {
    if (!text.contains(name) && config.json().contains(name)) text[name] = config.json()[name];
  }
  return text;
}

bool is_there(const json& object, const std::string& name) { return object.contains(name) && !object[name].is_null(); }

void add_defaults(json& config, const Architecture& architecture) {
  const auto defaults = json::parse(architecture.defaults);
  const bool has_rotation = is_there(config, "rope_scaling") || is_there(config, "rope_parameters");
  for (const auto& [name, value] : defaults.items()) {
    if (config.contains(name) || (name == "rope_parameters" && has_rotation)) continue;
    config[name] = value;
    config[concat(kDefaulted, name)] = nullptr;
  }
}

}  // namespace

json completed_config(const JsonObject& config, std::string& wrapper) {
  auto result = config.json();
  const auto& names = config.array("architectures");
  const bool is_wrapped =
      names.size() == 1 && std::find(kWrappers.begin(), kWrappers.end(), names[0]) != kWrappers.end();
  if (is_wrapped && config.has("text_config")) {
    wrapper = names[0].get<std::string>();
    result = text_part(config);
  }
  for (const auto& row : architectures()) {
    if (result["architectures"] == json::array({row.name})) add_defaults(result, row);
  }
  return result;
}

}  // namespace kvc
