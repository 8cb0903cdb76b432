#include "tokenizer_steps/component.h"

#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {

FindAll parse_pattern(const JsonObject& component, const std::string& field) {
  const auto pattern = component.object(field);
  if (pattern.has("String")) return find_text(pattern.text("String"));
  KVC_CHECK(pattern.has("Regex"), pattern.where(), ": ", brief(pattern.json()),
            ", expected {\"String\": ...} or {\"Regex\": ...}");
  return [regex = TokenizerRegex(pattern.text("Regex"), pattern.where())](std::string_view text) {
    return regex.find_all(text);
  };
}

FindAll find_text(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text) {
    std::vector<Match> matches;
    if (wanted.empty()) return matches;
    for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) {
      matches.push_back({at, at + wanted.size()});
    }
    return matches;
  };
}

FindAll find_characters(bool (*property)(char32_t)) {
  return [property](std::string_view text) {
    std::vector<Match> matches;
    for (size_t at = 0; at < text.size();) {
      const auto point = next_code_point(text, at);
      const size_t end = at + point.n_bytes;
      if (property(point.value)) matches.push_back({at, end});
      at = end;
    }
    return matches;
  };
}

void check_growth(size_t n_bytes_before, size_t n_bytes) {
  const size_t most = 256 + 32 * n_bytes_before;
  KVC_CHECK(n_bytes <= most, "tokenizer: its components make ", n_bytes, " bytes of a text of ", n_bytes_before,
            ", at most ", most);
}

std::string replace_all(std::string_view text, const FindAll& find, std::string_view replacement) {
  const auto matches = find(text);
  std::string out;
  out.reserve(text.size() + matches.size() * replacement.size());
  size_t done = 0;
  for (const auto& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(replacement);
    check_growth(text.size(), out.size());
    done = match.end;
  }
  return out.append(text.substr(done));
}

void refuse_component(const JsonObject& component, const std::vector<std::string>& supported) {
  throw Error(concat(component.where(), ": type ", in_quotes(component.text("type")),
                     " is not supported; supported: ", join(supported)));
}

}  // namespace kvc
