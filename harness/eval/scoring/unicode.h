// Characters and words as Python's str and re see them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

bool is_decimal_digit(char32_t c);  // re's \d in a str: Unicode category Nd
bool is_word_char(char32_t c);      // re's \w in a str: letters, numbers of any kind, underscore

// Unicode lower case, with the final sigma.
std::string lower(std::string_view text);

// Runs of non-blank characters; views into `text`.
std::vector<std::u32string_view> split_at_space(std::u32string_view text);

}  // namespace kvc
