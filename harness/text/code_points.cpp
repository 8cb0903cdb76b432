#include "text/code_points.h"

#include <unicode/uchar.h>

#include <cstring>

#include "kvc/check.h"

namespace kvc {
namespace {

struct LeadByte {
  int64_t n_bytes;  // 0: cannot begin a character
  unsigned char second_min = 0x80, second_max = 0xBF;
};

LeadByte lead_byte(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};  // a continuation byte, or an overlong form
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // up to U+10FFFF
  return {0};
}

// The first place from `at` on that may not be ASCII, eight bytes at a time.
size_t skip_ascii(std::string_view text, size_t at) {
  for (uint64_t eight = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&eight, text.data() + at, 8);
    if (eight & 0x8080808080808080u) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

uint32_t category_bit(char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)); }

}  // namespace

CodePoint next_code_point(std::string_view text, size_t at) {
  constexpr CodePoint kBroken{0xFFFD, 1, false};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto lead = lead_byte(byte(at));
  if (lead.n_bytes == 0) return kBroken;
  if (lead.n_bytes == 1) return {byte(at), 1, true};
  char32_t value = byte(at) & (0x7Fu >> lead.n_bytes);
  for (int64_t i = 1; i < lead.n_bytes; ++i) {
    const size_t here = at + static_cast<size_t>(i);
    const unsigned char min = i == 1 ? lead.second_min : 0x80, max = i == 1 ? lead.second_max : 0xBF;
    if (here >= text.size() || byte(here) < min || byte(here) > max) return {0xFFFD, i, false};
    value = value << 6 | (byte(here) & 0x3Fu);
  }
  return {value, lead.n_bytes, true};
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
             static_cast<char>(0x80 | (c & 0x3F))};
  } else {
    text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
             static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
  }
}

void check_utf8(std::string_view text, std::string_view what) {
  for (size_t at = 0; (at = skip_ascii(text, at)) < text.size();) {
    const auto point = next_code_point(text, at);
    if (!point.is_valid) {
      static constexpr char kHex[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(text[at]);
      throw Error(concat(what, ": byte ", at, " (0x", kHex[byte >> 4], kHex[byte & 15], ") is not valid UTF-8"));
    }
    at += static_cast<size_t>(point.n_bytes);
  }
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; (at = skip_ascii(text, at)) < text.size();) {
    const auto point = next_code_point(text, at);
    if (!point.is_valid) return false;
    at += static_cast<size_t>(point.n_bytes);
  }
  return true;
}

size_t complete_utf8(std::string_view bytes) {
  for (size_t n_cut = 1; n_cut <= 3 && n_cut <= bytes.size(); ++n_cut) {
    const size_t at = bytes.size() - n_cut;
    if ((static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80) continue;
    const bool may_go_on = lead_byte(static_cast<unsigned char>(bytes[at])).n_bytes > static_cast<int64_t>(n_cut);
    return may_go_on && next_code_point(bytes, at).n_bytes == static_cast<int64_t>(n_cut) ? at : bytes.size();
  }
  return bytes.size();
}

std::string replace_broken_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const auto point = next_code_point(bytes, at);
    append_utf8(text, point.value);
    at += static_cast<size_t>(point.n_bytes);
  }
  return text;
}

bool is_white_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool is_word(char32_t c) {
  return u_isUAlphabetic(static_cast<UChar32>(c)) || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL) ||
         (category_bit(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool is_numeric(char32_t c) { return (category_bit(c) & U_GC_N_MASK) != 0; }

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !u_isalnum(static_cast<UChar32>(c));
  return (category_bit(c) & U_GC_P_MASK) != 0;
}

}  // namespace kvc
