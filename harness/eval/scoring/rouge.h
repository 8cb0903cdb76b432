// ROUGE-L as the Python package `rouge` 1.0 computes it by default: over sets of words.
#pragma once

#include <string_view>

namespace kvc {

// How deep the package's recursive backtracking can go: CPython's default of 1,000 frames less those of its callers, in
// LongBench's eval.py under Python 3.11. The Chinese scorer has one more caller.
constexpr int kRougeDepth = 991;
constexpr int kRougeDepthZh = 990;

// The f of get_scores(prediction, gold, avg=True)["rouge-l"]; 0 where the package raises: a side without a sentence,
// and a pair of sentences whose backtracking goes deeper than `max_depth` calls.
double rouge_l(std::u32string_view prediction, std::u32string_view gold, int max_depth = kRougeDepth);

}  // namespace kvc
