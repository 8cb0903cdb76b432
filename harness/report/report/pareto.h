// What a compressor's bytes buy: accuracy against measured bytes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stats/interval.h"

namespace kvc {

struct ParetoPoint {
  std::string label, plugin, cell_key;
  double kv_percent = 0;             // of 16-bit storage
  double score = 0;                  // percent
  std::optional<Interval> interval;  // 95 %, percent
  bool is_dominated = false;
};

// Marks each point that another beats: no more bytes and no lower score, and one of both strictly better.
void mark_dominated(std::vector<ParetoPoint>& points);

// The undominated points, from the fewest bytes on.
std::vector<std::pair<double, double>> front_of(const std::vector<ParetoPoint>& points);

// The area below the front, of 100 % x 100 %: bytes up to those of 16-bit storage, scores from 0; 0 to 1. Points of
// more bytes than 16-bit storage do not count.
double hypervolume(const std::vector<ParetoPoint>& points);

// A mean of independent means with an interval (Zou and Donner's MOVER: distances of the limits add up in squares).
// None without an interval of each.
struct Mean {
  double score = 0;
  std::optional<Interval> interval;
};
Mean mean_of(const std::vector<Mean>& means);

}  // namespace kvc
