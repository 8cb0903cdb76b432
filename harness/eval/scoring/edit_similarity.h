// How alike two strings are, by their code points: difflib's ratio and the Indel ratio of the package Levenshtein.
#pragma once

#include <string_view>

namespace kvc {

// difflib.SequenceMatcher(None, a, b).ratio(), with the popular characters of a long b left out; not symmetric.
double difflib_ratio(std::u32string_view a, std::u32string_view b);

// Levenshtein.ratio(a, b): 1 - (insertions and deletions) / (|a| + |b|).
double indel_ratio(std::u32string_view a, std::u32string_view b);

// fuzz.ratio of the package fuzzywuzzy / 100, over either ratio: whole percents, half to even; 1 for equal strings, 0
// when one is empty.
double percent_similarity(double (*ratio)(std::u32string_view, std::u32string_view), std::u32string_view a,
                          std::u32string_view b);

}  // namespace kvc
