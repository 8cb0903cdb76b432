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

// A place in a template: a part, and bytes of it that stand before.
struct TemplatePlace {
  size_t part = 0, n_bytes = 0;
};

// Where `text`, written as in the template, begins for the last time. Throws Error where it does not stand there, where
// nothing stands before it, and where it begins within a variable's name.
TemplatePlace find_in_template(const Template& parts, std::string_view text);

}  // namespace kvc
