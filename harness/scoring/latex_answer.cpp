#include "scoring/latex_answer.h"

#include <array>
#include <utility>

#include "scoring/regex.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// The end of the group that opens at text[at]; npos where it is not closed. Escaped braces are text.
size_t end_of_group(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

struct Rule {
  Regex pattern;
  const char* by;
};

// In their order. What is found is no algebra but spelling.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> kRules = [] {
    const std::pair<const char*, const char*> texts[] = {
        {R"(\\\(|\\\)|\\\[|\\\]|\$|\\\$)", ""},  // signs of formulas and dollars
        {R"(\\(left|right|displaystyle)(?![a-zA-Z]))", ""},
        {R"(\\[!,;:]|\\(quad|qquad)(?![a-zA-Z])|~)", ""},
        {R"(\\[tdc]frac(?![a-zA-Z]))", R"(\frac)"},
        {R"(\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])|\\(degree|%)|%)", ""},
        {R"((?<=\S)\s*\\(text|mbox|mathrm)\{\s[^{}]*\}\s*(\^\{?[0-9]\}?)?\s*$)", ""},  // a unit behind the answer
        {R"(\\(text|mbox|mathrm|textbf|textit|mathbf)\{([^{}]*)\})", "$2"},
        {R"(^\s*[a-zA-Z]\w?\s*(=|\\in(?![a-zA-Z]))\s*)", ""},
        {R"(\s+|\\\s)", ""},
        {R"((?<=[0-9]),(?=[0-9]{3}(?![0-9])))", ""},
        {R"(\.$)", ""},
        {R"((?<![0-9])\.(?=[0-9]))", "0."},
        {R"(\\sqrt([0-9a-zA-Z]))", R"(\sqrt{$1})"},
        {R"(\\frac([0-9a-zA-Z])([0-9a-zA-Z]))", R"(\frac{$1}{$2})"},
        {R"(\\frac([0-9a-zA-Z])\{)", R"(\frac{$1}{)"},
        {R"(\\frac(\{[^{}]*\})([0-9a-zA-Z]))", R"(\frac$1{$2})"},
        {R"(^(-?)([0-9]+)/([0-9]+)$)", R"($1\frac{$2}{$3})"},
        {R"(^0\.5$)", R"(\frac{1}{2})"},
    };
    std::vector<Rule> all;
    for (const auto& [pattern, by] : texts) all.push_back({Regex(pattern), by});
    return all;
  }();
  return kRules;
}

}  // namespace

std::optional<std::string> boxed(std::string_view text, bool last) {
  std::optional<std::string> found;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    const size_t length = rest.starts_with("\\boxed") ? 6 : rest.starts_with("\\fbox") ? 5 : 0;
    if (length == 0) continue;
    const size_t open = text.find_first_not_of(" \t\n", at + length);
    if (open == std::string_view::npos || text[open] != '{') continue;
    const size_t end = end_of_group(text, open);
    if (end == std::string_view::npos) continue;
    found = text.substr(open + 1, end - open - 1);
    if (!last) return found;
    at = end;
  }
  return found;
}

std::string normal_latex(std::string_view answer) {
  std::string text(answer);
  for (const auto& rule : rules()) text = rule.pattern.replace(text, rule.by);
  return text;
}

}  // namespace kvc
