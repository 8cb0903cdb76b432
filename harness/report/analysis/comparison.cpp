#include "analysis/comparison.h"

#include <numeric>

#include "kvc/check.h"

namespace kvc {
namespace {

template <class Function>
std::vector<double> each(std::span<const AnswerPair> pairs, Function of_pair) {
  std::vector<double> values;
  for (const auto& pair : pairs) values.push_back(static_cast<double>(of_pair(pair)));
  return values;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void test_binary(Comparison& result, double margin) {
  const PairedCounts counts{result.n, result.n_fell, result.n_rose};
  result.test = "McNemar (exact)";
  result.p = mcnemar_exact(result.n_fell, result.n_rose);
  result.difference = tango_interval(counts);
  if (margin > 0) result.equivalence = tost_binary(counts, margin);
}

void test_graded(Comparison& result, const std::vector<double>& differences, double margin) {
  const Resampling how;
  const auto flips = sign_flip_test(differences, how);
  result.test = flips.is_exact ? "sign flips (exact)" : concat("sign flips (", how.n_draws, " drawn)");
  result.p = flips.p;
  result.difference = bootstrap_interval(differences, 0.95, how);
  if (margin > 0) result.equivalence = tost_t(differences, margin);
}

}  // namespace

Comparison compare_pairs(std::span<const AnswerPair> pairs, double margin) {
  KVC_CHECK(!pairs.empty(), "a comparison without pairs");
  Comparison result;
  result.n = static_cast<int64_t>(pairs.size());
  const auto scores_a = each(pairs, [](const auto& pair) { return pair.score_a; });
  const auto scores_b = each(pairs, [](const auto& pair) { return pair.score_b; });
  const auto differences = each(pairs, [](const auto& pair) { return pair.score_b - pair.score_a; });
  result.score_a = mean(scores_a);
  result.score_b = mean(scores_b);
  for (const double difference : differences) {
    result.n_fell += difference < 0;
    result.n_rose += difference > 0;
  }
  result.mean_difference = mean(differences);
  result.sd_difference = sample_deviation(differences);
  result.is_binary = is_binary(scores_a) && is_binary(scores_b);
  if (result.is_binary) {
    test_binary(result, margin);
  } else {
    test_graded(result, differences, margin);
  }
  const auto longer = each(pairs, [](const auto& pair) { return pair.n_new_tokens_b - pair.n_new_tokens_a; });
  result.mean_longer = mean(longer);
  result.median_longer = median(longer);
  result.truncated = mean(each(pairs, [](const auto& pair) { return pair.is_truncated; }));
  result.at_limit_a = mean(each(pairs, [](const auto& pair) { return pair.at_limit_a; }));
  result.at_limit_b = mean(each(pairs, [](const auto& pair) { return pair.at_limit_b; }));
  result.in_loop_a = mean(each(pairs, [](const auto& pair) { return pair.in_loop_a; }));
  result.in_loop_b = mean(each(pairs, [](const auto& pair) { return pair.in_loop_b; }));
  result.identical = mean(each(pairs, [](const auto& pair) { return !pair.first_difference; }));
  std::vector<double> first_differences;
  for (const auto& pair : pairs) {
    if (pair.first_difference) first_differences.push_back(static_cast<double>(*pair.first_difference));
  }
  if (!first_differences.empty()) result.median_first_difference = median(first_differences);
  return result;
}

}  // namespace kvc
