#include "jinja/text_tools.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>

#include "text/characters.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

icu::UnicodeString to_icu(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string from_icu(const icu::UnicodeString& text) {
  std::string utf8;
  text.toUTF8String(utf8);
  return utf8;
}

bool has_case(char32_t c) {
  const auto icu = static_cast<UChar32>(c);
  return u_isUUppercase(icu) || u_isULowercase(icu) || u_istitle(icu);
}

bool has_numeric_type(char32_t c, std::initializer_list<int32_t> types) {
  const auto type = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_NUMERIC_TYPE);
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// One character's title case, which may be several characters.
std::string title_of(std::string_view character) {
  auto text = to_icu(character);
  return from_icu(
      text.toTitle(nullptr, icu::Locale::getRoot(), U_TITLECASE_NO_LOWERCASE | U_TITLECASE_NO_BREAK_ADJUSTMENT));
}

std::vector<std::string_view> split_at_spaces(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  auto rest = trimmed(text, nullptr, from_right ? Side::right : Side::left);
  while (!rest.empty()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(trimmed(rest, nullptr, from_right ? Side::left : Side::right));
      if (parts.back().empty()) parts.pop_back();
      break;
    }
    size_t end = from_right ? rest.size() : 0;
    while (from_right ? end > 0 : end < rest.size()) {
      const size_t at = from_right ? previous_code_point(rest, end) : end;
      const auto point = next_code_point(rest, at);
      if (is_space(point.value)) break;
      end = from_right ? at : end + point.n_bytes;
    }
    parts.push_back(from_right ? rest.substr(end) : rest.substr(0, end));
    rest = from_right ? trimmed(rest.substr(0, end), nullptr, Side::right)
                      : trimmed(rest.substr(end), nullptr, Side::left);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::string_view trimmed(std::string_view text, const std::string* chars, Side side) {
  auto set = chars ? to_code_points(*chars) : std::u32string();
  std::sort(set.begin(), set.end());
  const auto drops = [&](char32_t c) { return chars ? std::binary_search(set.begin(), set.end(), c) : is_space(c); };
  while (side != Side::right && !text.empty()) {
    const auto point = next_code_point(text, 0);
    if (!drops(point.value)) break;
    text.remove_prefix(point.n_bytes);
  }
  while (side != Side::left && !text.empty()) {
    const auto last = previous_code_point(text, text.size());
    if (!drops(next_code_point(text, last).value)) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::string upper(std::string_view text) { return from_icu(to_icu(text).toUpper(icu::Locale::getRoot())); }
std::string lower(std::string_view text) { return from_icu(to_icu(text).toLower(icu::Locale::getRoot())); }
std::string case_folded(std::string_view text) { return from_icu(to_icu(text).foldCase()); }

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  const auto n = next_code_point(text, 0).n_bytes;
  return title_of(text.substr(0, n)) + lower(text).substr(lower(text.substr(0, n)).size());
}

std::string titled(std::string_view text) {
  std::string titled_text, word;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const auto character = text.substr(at, point.n_bytes);
    if (in_word && has_case(point.value)) {
      word += character;
    } else {
      titled_text += lower(word), word.clear();
      titled_text += has_case(point.value) ? title_of(character) : std::string(character);
    }
    in_word = has_case(point.value);
    at += point.n_bytes;
  }
  return titled_text + lower(word);
}

std::vector<std::string_view> split(std::string_view text, const std::string* separator, int64_t most,
                                    bool from_right) {
  if (!separator) return split_at_spaces(text, most, from_right);
  KVC_CHECK(!separator->empty(), "the separator of a split is empty");
  // Cuts from the right are cuts from the left of the text read backward.
  const std::string_view part(*separator);
  const std::string backward = from_right ? std::string(text.rbegin(), text.rend()) : "";
  const std::string wanted = from_right ? std::string(part.rbegin(), part.rend()) : *separator;
  const std::string_view searched = from_right ? backward : text;
  const auto between = [&](size_t begin, size_t end) {
    return from_right ? text.substr(text.size() - end, end - begin) : text.substr(begin, end - begin);
  };
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const auto at = find_text(searched, wanted, begin);
    if (at == std::string_view::npos) break;
    parts.push_back(between(begin, at));
    begin = at + wanted.size();
  }
  parts.push_back(between(begin, searched.size()));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const auto end = at;
    at += point.n_bytes;
    if (!is_line_end(point.value)) continue;
    if (point.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replaced(Run& run, std::string_view text, std::string_view old, std::string_view by, int64_t most) {
  Builder out(run);
  size_t at = 0;
  for (int64_t n = 0; most < 0 || n < most; ++n) {
    if (old.empty() && n > 0) {  // between all characters, and at the ends
      if (at == text.size()) break;
      const auto n_bytes = next_code_point(text, at).n_bytes;
      out << text.substr(at, n_bytes);
      at += n_bytes;
    }
    const auto found = find_text(text, old, at);
    if (found == std::string_view::npos) break;
    run.step();
    out << text.substr(at, found - at) << by;
    at = found + old.size();
  }
  out << text.substr(at);
  return out.finish();
}

size_t find_text(std::string_view text, std::string_view wanted, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (wanted.empty()) return begin;
  const auto* found = memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

size_t find_last(std::string_view text, std::string_view wanted) {
  if (text.size() < wanted.size()) return std::string_view::npos;
  const std::string backward(text.rbegin(), text.rend()), mirrored(wanted.rbegin(), wanted.rend());
  const auto found = find_text(backward, mirrored);
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

bool has_property(std::string_view text, const std::string& name) {
  const auto points = to_code_points(text);
  const auto category = [](char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)); };
  const auto is_alpha = [&](char32_t c) { return (category(c) & U_GC_L_MASK) != 0; };
  const auto is_decimal = [&](char32_t c) { return has_numeric_type(c, {U_NT_DECIMAL}); };
  const auto is_digit = [&](char32_t c) { return has_numeric_type(c, {U_NT_DECIMAL, U_NT_DIGIT}); };
  const auto is_number = [&](char32_t c) { return has_numeric_type(c, {U_NT_DECIMAL, U_NT_DIGIT, U_NT_NUMERIC}); };
  const auto all = [&](const auto& holds) {
    return !points.empty() && std::all_of(points.begin(), points.end(), holds);
  };
  const auto is_upper = [](char32_t c) { return u_isUUppercase(static_cast<UChar32>(c)) != 0; };
  const auto is_lower = [](char32_t c) { return u_isULowercase(static_cast<UChar32>(c)) != 0; };
  const auto one_case = [&](const auto& is_right) {  // a letter with case, and none of another one
    return std::any_of(points.begin(), points.end(), is_right) &&
           std::none_of(points.begin(), points.end(), [&](char32_t c) { return has_case(c) && !is_right(c); });
  };
  if (name == "isspace") return all(is_space);
  if (name == "isalpha") return all(is_alpha);
  if (name == "isdigit") return all(is_digit);
  if (name == "isdecimal") return all(is_decimal);
  if (name == "isnumeric") return all(is_number);
  if (name == "isalnum") return all([&](char32_t c) { return is_alpha(c) || is_number(c); });
  if (name == "isupper") return one_case(is_upper);
  if (name == "islower") return one_case(is_lower);
  KVC_CHECK(name == "isascii", "str.", name, " is not supported");
  return std::all_of(points.begin(), points.end(), [](char32_t c) { return c < 0x80; });
}

std::string escape_html(Run& run, std::string_view text) {
  Builder out(run);
  for (const char& c : text) {
    const char* name = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '\'' ? "&#39;"
                       : c == '"'  ? "&#34;"
                                   : nullptr;
    out << (name ? std::string_view(name) : std::string_view(&c, 1));
  }
  return out.finish();
}

}  // namespace kvc::jinja
