#include "prompt/chat_settings.h"

#include "jinja/template.h"

namespace kvc {
namespace {

using nlohmann::ordered_json;

// Plain scalars as YAML's core schema reads them; quoted ones are text.
ordered_json json_of(const YamlValue& value) {
  if (value.is_map()) {
    auto object = ordered_json::object();
    auto map = value.map();
    for (const auto& [key, inner] : map.entries()) object[key] = json_of(inner);
    return object;
  }
  if (value.is_sequence()) {
    auto array = ordered_json::array();
    for (const auto& inner : value.sequence()) array.push_back(json_of(inner));
    return array;
  }
  if (value.is_null()) return nullptr;
  const auto& node = value.node();
  if (node.Tag() == "!") return value.string();
  int64_t integer = 0;
  double real = 0;
  if (node.Scalar() == "true" || node.Scalar() == "false") return node.Scalar() == "true";
  if (YAML::convert<int64_t>::decode(node, integer)) return integer;
  if (YAML::convert<double>::decode(node, real)) return real;
  return value.string();
}

}  // namespace

ordered_json read_chat_options(const YamlValue& value) {
  auto map = value.map();
  for (const auto& [key, inner] : map.entries()) {
    if (key == "messages" || key == "add_generation_prompt") {
      inner.fail(inner.name(), " is what a prompt itself gives the template, expected other variables");
    }
  }
  return json_of(value);
}

std::string read_chat_date(const YamlValue& value) {
  try {
    jinja::parse_day(value.string());
  } catch (const Error& e) {
    value.fail(value.name(), ": ", e.what());
  }
  return value.string();
}

}  // namespace kvc
