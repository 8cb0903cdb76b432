// English text as words and as sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

std::vector<std::string> split_words(std::string_view text);  // at ASCII whitespace

// Of a text of words with a blank between them; joined by blanks the sentences are the text. One ends with a word that
// ends in . ! or ?, whatever quotes and brackets follow, where the next begins with no small letter; initials and some
// abbreviations end none.
std::vector<std::string> split_sentences(const std::vector<std::string>& words);

}  // namespace kvc
