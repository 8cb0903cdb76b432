// The intervals that SQL functions return, by the values they were computed of: a query asks for low and high one after
// the other, and a page again for those of the page before.
#pragma once

#include <optional>
#include <vector>

#include "stats/interval.h"

namespace kvc {

// score_interval() of at least one value.
Interval remembered_score_interval(const std::vector<double>& values);

// interval_of_texts() of sums over blocks: `values` with their `weights` above 0, and the window that each block is of.
std::optional<Interval> remembered_text_interval(const std::vector<double>& values, const std::vector<double>& weights,
                                                 const std::vector<double>& windows);

}  // namespace kvc
