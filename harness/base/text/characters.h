// Properties of characters, by ICU.
#pragma once

namespace kvc {

bool is_space(char32_t c);  // as Python's str.isspace(), split() and strip() see it
bool is_white_space(char32_t c);
bool is_word(char32_t c);  // \w of regular expressions: letters, marks, digits, connectors, joiners
bool is_numeric(char32_t c);
bool is_punctuation(char32_t c);  // and the ASCII symbols $+<=>^`|~

}  // namespace kvc
