// What a search over one integer for each layer may try: plans whose caches fit a budget, each proposed once.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kvc {

using LayerPlan = std::vector<int64_t>;  // one value for each layer, from the lowest on

std::string to_text(const LayerPlan& plan);  // {8, 4} -> "8,4", as options are written

class SearchSpace {
 public:
  // levels: what a layer may get, ascending; bytes[layer][i]: what the layer's caches hold at levels[i].
  SearchSpace(std::vector<int64_t> levels, std::vector<std::vector<int64_t>> bytes, int64_t budget_bytes,
              uint64_t seed);

  int64_t bytes(const LayerPlan& plan) const;
  int64_t least_bytes() const;  // of the cheapest plan
  bool fits(const LayerPlan& plan) const { return bytes(plan) <= budget_bytes_; }

  // The monotone family: the first k layers at one level, the rest at a lower one, for all k and pairs of levels, and
  // each level for all layers. Those that fit, most bytes first.
  std::vector<LayerPlan> two_steps() const;

  // Marks a plan as proposed; false if it was.
  bool propose(const LayerPlan& plan) { return proposed_.insert(plan).second; }

  // A plan that fits and was not proposed: of uniform values, lowered at random layers until they fit; or `plan` with
  // one or two layers changed, or two swapped. Nothing where kTries found none.
  std::optional<LayerPlan> random();
  std::optional<LayerPlan> mutation_of(const LayerPlan& plan);

  static constexpr int kTries = 1000;

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  int64_t any_level() { return levels_[below(levels_.size())]; }
  size_t level_index(int64_t value) const;

  std::vector<int64_t> levels_;
  std::vector<std::vector<int64_t>> bytes_;
  int64_t budget_bytes_;
  std::mt19937_64 random_;  // the standard fixes its numbers: a seed means the same everywhere
  std::set<LayerPlan> proposed_;
};

}  // namespace kvc
