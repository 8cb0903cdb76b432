#include "run/check_verdict.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "text/yaml_read.h"

namespace kvc {
namespace {

constexpr int64_t kMany = std::numeric_limits<int32_t>::max();

Level level_of(double value, const Bounds& bounds) {
  return value <= bounds.unchanged ? Level::unchanged : value < bounds.breaks ? Level::small_loss : Level::breaks;
}

const char* name_of(Level level) {
  switch (level) {
    case Level::unchanged:
      return "unchanged";
    case Level::small_loss:
      return "small loss";
    case Level::breaks:
      return "breaks";
  }
  throw Error("Level out of range");
}

// `sign` -1: a figure that falls with the loss, from 100 %.
Bounds read_bounds(YamlMap& map, const char* name, double most, double scale, bool falls) {
  const auto value = map.required(name);
  auto bounds = value.map();
  const auto read = [&](const char* key) {
    const double given = bounds.required(key).real(0, most);
    return (falls ? most - given : given) * scale;
  };
  const Bounds result{read("unchanged"), read("breaks")};
  bounds.reject_unknown();
  if (result.unchanged >= result.breaks) {
    value.fail(value.name(), ": unchanged and breaks leave nothing between them");
  }
  return result;
}

}  // namespace

Levels levels_of(const Interval& interval, const Bounds& bounds) {
  return {level_of(interval.low, bounds), level_of(interval.high, bounds)};
}

Levels at_least(const Interval& interval, double found, const Bounds& bounds) {
  return {level_of(interval.low, bounds), level_of(found, bounds)};
}

Levels worse_of(const Levels& a, const Levels& b) { return {std::max(a.least, b.least), std::max(a.most, b.most)}; }

std::string to_string(const Levels& levels) {
  if (levels.least == levels.most) return name_of(levels.least);
  const bool all = levels.least == Level::unchanged && levels.most == Level::breaks;
  return all ? "undecided" : concat("undecided: ", name_of(levels.least), " or ", name_of(levels.most));
}

CheckSettings load_check_settings(const std::filesystem::path& file) {
  auto whole = load_yaml(file).map();
  auto map = whole.required("check").map();
  CheckSettings settings;
  settings.context = map.required_integer("context", 2, kMany);
  settings.n_lengths = map.required_integer("lengths", 1, kMany);
  auto quick = map.required("quick").map();
  settings.quick_limit = quick.required_integer("limit", 1, kMany);
  settings.quick_n_lengths = quick.required_integer("lengths", 1, kMany);
  quick.reject_unknown();
  auto bounds = map.required("bounds").map();
  settings.kl = read_bounds(bounds, "kl", 100, 1, false);
  settings.top1 = read_bounds(bounds, "top1", 100, 0.01, true);
  settings.passkey = read_bounds(bounds, "passkey", 100, 0.01, false);
  bounds.reject_unknown();
  settings.outlier_channel = map.required("outlier_channel").real(1);
  map.reject_unknown();
  return settings;
}

}  // namespace kvc
