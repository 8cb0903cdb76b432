// Prompt templates: {name} is replaced once, from left to right; every other brace is text, in templates and in data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

struct TemplatePart {
  bool is_variable = false;
  std::string text;  // the variable's name, or the text itself
};

using Template = std::vector<TemplatePart>;

Template parse_template(std::string_view text);

}  // namespace kvc
