#include "tokenizer_steps/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "kvc/check.h"
#include "text/characters.h"
#include "text/utf8.h"
#include "tokenizer_steps/byte_level.h"
#include "tokenizer_steps/component.h"

namespace kvc {
namespace {

using Steps = std::vector<TextStep>;

TextStep unicode_form(const icu::Normalizer2* (*form)(UErrorCode&), const std::string& where) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* normalizer = form(status);
  KVC_CHECK(U_SUCCESS(status), where, ": ICU: ", u_errorName(status));
  return [normalizer, where](std::string text) {
    std::string out;
    icu::StringByteSink<std::string> sink(&out);
    UErrorCode status = U_ZERO_ERROR;
    normalizer->normalizeUTF8(0, text, sink, nullptr, status);
    KVC_CHECK(U_SUCCESS(status), where, ": ICU: ", u_errorName(status));
    return out;
  };
}

template <class Map>  // Map(c, out) appends what stands for c
std::string map_characters(std::string_view text, const Map& map) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    map(point.value, out);
    at += point.n_bytes;
  }
  return out;
}

// Each character by itself: U+0130 is the only one whose lower case is two characters.
std::string lowercase(std::string text) {
  return map_characters(text, [](char32_t c, std::string& out) {
    if (c == 0x130) {
      out += "i\u0307";
    } else {
      append_utf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
    }
  });
}

std::string strip_accents(std::string text) {
  return map_characters(text, [](char32_t c, std::string& out) {
    if ((U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) == 0) append_utf8(out, c);
  });
}

std::string strip_white_space(std::string_view text, bool left, bool right) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const size_t next = at + point.n_bytes;
    if (!is_white_space(point.value)) {
      begin = std::min(begin, at);
      end = next;
    }
    at = next;
  }
  if (!left) begin = 0;
  if (!right) end = text.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

void add_steps(const JsonObject& component, Steps& steps);

struct NormalizerRow {
  const char* type;
  void (*add)(const JsonObject&, Steps&);
};
const NormalizerRow kNormalizers[] = {
    {"Sequence",
     [](const JsonObject& c, Steps& steps) {
       for (const auto& part : c.array("normalizers")) add_steps({part, c.where()}, steps);
     }},
    {"NFC",
     [](const JsonObject& c, Steps& s) { s.push_back(unicode_form(icu::Normalizer2::getNFCInstance, c.where())); }},
    {"NFD",
     [](const JsonObject& c, Steps& s) { s.push_back(unicode_form(icu::Normalizer2::getNFDInstance, c.where())); }},
    {"NFKC",
     [](const JsonObject& c, Steps& s) { s.push_back(unicode_form(icu::Normalizer2::getNFKCInstance, c.where())); }},
    {"NFKD",
     [](const JsonObject& c, Steps& s) { s.push_back(unicode_form(icu::Normalizer2::getNFKDInstance, c.where())); }},
    {"Lowercase", [](const JsonObject&, Steps& s) { s.emplace_back(lowercase); }},
    {"StripAccents", [](const JsonObject&, Steps& s) { s.emplace_back(strip_accents); }},
    {"Strip",
     [](const JsonObject& c, Steps& s) {
       s.emplace_back([left = c.boolean("strip_left"), right = c.boolean("strip_right")](std::string text) {
         return strip_white_space(text, left, right);
       });
     }},
    {"Prepend",
     [](const JsonObject& c, Steps& s) {
       s.emplace_back([prefix = c.text("prepend")](std::string text) { return text.empty() ? text : prefix + text; });
     }},
    {"Replace",
     [](const JsonObject& c, Steps& s) {
       s.emplace_back([find = parse_pattern(c, "pattern"), content = c.text("content")](std::string text) {
         return replace_all(text, find, content);
       });
     }},
    {"ByteLevel",
     [](const JsonObject&, Steps& s) { s.emplace_back([](std::string text) { return bytes_to_alphabet(text); }); }},
};

void add_steps(const JsonObject& component, Steps& steps) {
  find_component<NormalizerRow>(component, kNormalizers).add(component, steps);
}

}  // namespace

std::vector<TextStep> parse_normalizer(const nlohmann::json& value, const std::string& where) {
  Steps steps;
  if (!value.is_null()) add_steps({value, where}, steps);
  return steps;
}

std::string normalize(std::string text, const std::vector<TextStep>& steps) {
  const size_t n_bytes = text.size();
  for (const auto& step : steps) {
    text = step(std::move(text));
    check_growth(n_bytes, text.size());
  }
  return text;
}

}  // namespace kvc
