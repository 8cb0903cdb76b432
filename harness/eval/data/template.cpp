#include "data/template.h"

#include "kvc/check.h"
#include "text/utf8.h"

namespace kvc {
namespace {

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

// The length of a "{name}" at the start of `text`, or 0.
size_t variable_length(std::string_view text) {
  if (text.size() < 3 || text[0] != '{' || !is_name_start(text[1])) return 0;
  size_t i = 2;
  while (i < text.size() && is_name_part(text[i])) ++i;
  return i < text.size() && text[i] == '}' ? i + 1 : 0;
}

}  // namespace

Template parse_template(std::string_view text) {
  Template parts;
  while (!text.empty()) {
    if (const size_t length = variable_length(text)) {
      parts.push_back({true, std::string(text.substr(1, length - 2))});
      text.remove_prefix(length);
      continue;
    }
    if (parts.empty() || parts.back().is_variable) parts.push_back({false, ""});
    parts.back().text += text[0];
    text.remove_prefix(1);
  }
  return parts;
}

TemplatePlace find_in_template(const Template& parts, std::string_view text) {
  std::string written;
  std::vector<size_t> begins;
  for (const auto& part : parts) {
    begins.push_back(written.size());
    written += part.is_variable ? "{" + part.text + "}" : part.text;
  }
  const size_t at = written.rfind(text);
  KVC_CHECK(at != std::string::npos, "the template does not hold ", in_quotes(text));
  KVC_CHECK(at > 0, "the template begins with ", in_quotes(text), ", expected something before it");
  size_t part = begins.size() - 1;
  while (begins[part] > at) --part;
  const size_t n_bytes = at - begins[part];
  KVC_CHECK(!parts[part].is_variable || n_bytes == 0, in_quotes(text), " begins within the variable {",
            parts[part].text, "}");
  return {part, n_bytes};
}

}  // namespace kvc
