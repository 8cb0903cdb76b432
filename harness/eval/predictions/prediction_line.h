// One line of a file of predictions, with its place for messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kvc/check.h"
#include "text/json.h"
#include "text/message.h"
#include "text/nearest.h"

namespace kvc {

struct PredictionLine {
  const nlohmann::json& object;
  std::string where;  // file:line:1

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(in_one_line(concat(where, ": error: ", parts...)));
  }

  const nlohmann::json* find(const std::string& field) const {
    const auto found = object.find(field);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  const nlohmann::json& required(const std::string& field) const {
    const auto found = object.find(field);
    if (found != object.end()) return *found;
    std::vector<std::string> known;
    for (const auto& [key, value] : object.items()) known.push_back(key);
    fail("missing field '", field, "'; the line has: ", join(known));
  }

  std::string text(const nlohmann::json& value, const std::string& field) const {
    if (!value.is_string()) fail("field '", field, "' is ", value.type_name(), ", expected a string");
    return value.get<std::string>();
  }

  // Numbers and booleans as Python's str() gives them, as lm-eval compares them.
  std::vector<std::string> texts(const nlohmann::json& value, const std::string& field) const {
    if (!value.is_array() || value.empty()) {
      fail("field '", field, "' is ", value.is_array() ? "empty" : value.type_name(), ", expected a list of strings");
    }
    std::vector<std::string> result;
    for (const auto& item : value) {
      const auto text = scalar_text(item);
      if (!text) fail("field '", field, "' holds ", item.type_name(), ", expected strings, numbers or booleans");
      result.push_back(*text);
    }
    return result;
  }

  std::vector<std::string> text_or_texts(const std::string& field) const {
    const auto& value = required(field);
    if (const auto text = scalar_text(value)) return {*text};
    if (value.is_array()) return texts(value, field);
    fail("field '", field, "' is ", value.type_name(), ", expected a string, a number, a boolean or a list of these");
  }
};

}  // namespace kvc
