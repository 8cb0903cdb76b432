#include "search/search_space.h"

#include <algorithm>

#include "kvc/check.h"

namespace kvc {

std::string to_text(const LayerPlan& plan) {
  std::string text;
  for (const int64_t value : plan) text += concat(text.empty() ? "" : ",", value);
  return text;
}

SearchSpace::SearchSpace(std::vector<int64_t> levels, std::vector<std::vector<int64_t>> bytes, int64_t budget_bytes,
                         uint64_t seed)
    : levels_(std::move(levels)), bytes_(std::move(bytes)), budget_bytes_(budget_bytes), random_(seed) {
  KVC_CHECK(!levels_.empty() && std::is_sorted(levels_.begin(), levels_.end()),
            "search: levels must be ascending, found ", to_text(levels_));
}

size_t SearchSpace::level_index(int64_t value) const {
  const auto found = std::lower_bound(levels_.begin(), levels_.end(), value);
  KVC_CHECK(found != levels_.end() && *found == value, "search: ", value, " is none of the levels ", to_text(levels_));
  return static_cast<size_t>(found - levels_.begin());
}

int64_t SearchSpace::bytes(const LayerPlan& plan) const {
  int64_t sum = 0;
  for (size_t layer = 0; layer < plan.size(); ++layer) sum += bytes_[layer][level_index(plan[layer])];
  return sum;
}

int64_t SearchSpace::least_bytes() const {
  int64_t sum = 0;
  for (const auto& layer : bytes_) sum += *std::min_element(layer.begin(), layer.end());
  return sum;
}

std::vector<LayerPlan> SearchSpace::two_steps() const {
  std::set<LayerPlan> found;
  for (const int64_t first : levels_) {
    for (const int64_t rest : levels_) {
      if (first < rest) break;
      for (size_t k = 0; k <= bytes_.size(); ++k) {
        LayerPlan plan(bytes_.size(), rest);
        std::fill_n(plan.begin(), k, first);
        if (fits(plan)) found.insert(std::move(plan));
      }
    }
  }
  std::vector<LayerPlan> family(found.begin(), found.end());
  std::stable_sort(family.begin(), family.end(), [&](const auto& a, const auto& b) { return bytes(a) > bytes(b); });
  return family;
}

std::optional<LayerPlan> SearchSpace::random() {
  for (int i = 0; i < kTries; ++i) {
    LayerPlan plan(bytes_.size());
    for (auto& value : plan) value = any_level();
    for (int step = 0; step < kTries && !fits(plan); ++step) {
      auto& value = plan[below(plan.size())];
      value = levels_[std::max<size_t>(level_index(value), 1) - 1];
    }
    if (fits(plan) && propose(plan)) return plan;
  }
  return std::nullopt;
}

std::optional<LayerPlan> SearchSpace::mutation_of(const LayerPlan& plan) {
  for (int i = 0; i < kTries; ++i) {
    auto changed = plan;
    const size_t a = below(changed.size()), b = below(changed.size());
    switch (below(3)) {
      case 0:
        changed[a] = any_level();
        break;
      case 1:
        changed[a] = any_level();
        changed[b] = any_level();
        break;
      default:
        std::swap(changed[a], changed[b]);
    }
    if (fits(changed) && propose(changed)) return changed;
  }
  return std::nullopt;
}

}  // namespace kvc
