// The statistics of one set of answer pairs: B against A.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analysis/pairs.h"
#include "stats/paired.h"

namespace kvc {

struct Comparison {
  int64_t n = 0;
  double score_a = 0, score_b = 0;  // means, 0 to 1
  double mean_difference = 0;       // of score_b - score_a over the pairs
  Interval difference;              // 95 %, of score_b - score_a: Tango's where all scores are 0 or 1, else bootstrap
  double sd_difference = 0;         // of a pair's difference; 0 for one pair
  bool is_binary = false;           // all scores are 0 or 1
  std::string test;                 // McNemar (exact), sign flips (exact), sign flips (10000 drawn)
  double p = 1;                     // two-sided
  std::optional<Equivalence> equivalence;     // with a margin: Tango's score test, or Student's t
  int64_t n_fell = 0, n_rose = 0;             // pairs whose score fell (right to wrong), rose (wrong to right)
  double mean_longer = 0, median_longer = 0;  // new tokens, B - A
  double truncated = 0, identical = 0;        // shares of the pairs, as are the next four
  double at_limit_a = 0, at_limit_b = 0, in_loop_a = 0, in_loop_b = 0;
  std::optional<double> median_first_difference;  // token position, where generations differ
};

// `margin` in scores, above 0, or 0 for none. Throws Error without pairs.
Comparison compare_pairs(std::span<const AnswerPair> pairs, double margin);

}  // namespace kvc
