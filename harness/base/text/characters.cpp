#include "text/characters.h"

#include <unicode/uchar.h>

namespace kvc {
namespace {

uint32_t category_bit(char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)); }

}  // namespace

bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || is_white_space(c); }

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
