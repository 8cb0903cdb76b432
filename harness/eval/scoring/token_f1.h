// F1 over bags of words, as question answering is scored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvc {

class ChineseWords;

// 2pr / (p + r) over the words that both bags share, with multiplicities; 0 when they share none.
double bag_f1(const std::vector<std::u32string_view>& prediction, const std::vector<std::u32string_view>& gold);

// English: lower case, without ASCII punctuation, the words a, an, the blanked, split at whitespace.
double token_f1(std::string_view prediction, std::string_view gold);

// Chinese: words of the segmenter, each in lower case without ASCII and CJK punctuation and whitespace; empty ones go.
double token_f1(std::string_view prediction, std::string_view gold, const ChineseWords& words);

}  // namespace kvc
