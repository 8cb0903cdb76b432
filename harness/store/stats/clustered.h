// Intervals of values that come in clusters: blocks of tokens in windows of text.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "stats/interval.h"

namespace kvc {

// Items that depend on each other, each with a weight above 0.
struct Cluster {
  std::vector<double> values, weights;
};

double clustered_mean(std::span<const Cluster> clusters);  // sum(values) / sum(weights)

constexpr size_t kFewestClusters = 5;  // with fewer nothing is known of how clusters differ

// Interval of sum(values) / sum(weights) by a bootstrap in two stages (A. C. Davison, D. V. Hinkley, Bootstrap Methods
// and their Application, 1997, section 3.8): clusters are drawn with replacement, then items within each cluster drawn.
// Two stages count the spread within clusters twice and few clusters too little, so the percentiles' distances from the
// ratio are scaled to the width that Student's t gives for the clusters' residuals; each bound is the farther one of
// the two, since long tails make either of them too near. Throws Error for fewer than 2 clusters or an empty one.
Interval clustered_interval(std::span<const Cluster> clusters, double confidence = 0.95, const Resampling& how = {});

// The interval shown for windows of text, each with its blocks of tokens: the one above, as far as it is within what the
// mean can be; none for fewer than kFewestClusters windows.
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
std::optional<Interval> interval_of_texts(std::span<const Cluster> windows,
                                          const Interval& possible = {-kUnbounded, kUnbounded});

}  // namespace kvc
