#include "check/check_verdict.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "experiment/experiment.h"
#include "text/yaml_keys.h"

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

void bound_keys(YamlKeys& keys, double most, Bounds& bounds) {
  keys.real({"unchanged", "bound of the verdict 'unchanged'", kRequired}, bounds.unchanged, 0, most);
  keys.real({"breaks", "bound of the verdict 'breaks'", kRequired}, bounds.breaks, 0, most);
}

// `falls`: a figure that falls with the loss, from 100 %.
void bounds_key(YamlKeys& keys, const YamlKey& key, double most, double scale, bool falls, Bounds& bounds) {
  keys.other(
      key, "map",
      [&](const YamlValue& value) {
        read_keys(value.map(), [&](YamlKeys& inner) { bound_keys(inner, most, bounds); });
        for (double* bound : {&bounds.unchanged, &bounds.breaks}) {
          *bound = (falls ? most - *bound : *bound) * scale;
        }
        if (bounds.unchanged >= bounds.breaks) {
          value.fail(value.name(), ": unchanged must be the stricter bound");
        }
      },
      [&](YamlKeys& inner) { bound_keys(inner, most, bounds); });
}

}  // namespace

Levels levels_of(const Interval& interval, const Bounds& bounds) {
  return {level_of(interval.low, bounds), level_of(interval.high, bounds)};
}

double times_needed(const Interval& interval, double found, const Bounds& bounds) {
  double times = 1;
  for (const double bound : {bounds.unchanged, bounds.breaks}) {
    if (bound < interval.low || bound > interval.high) continue;
    const double half = bound > found ? interval.high - found : found - interval.low;
    times = std::max(times, (half / (bound - found)) * (half / (bound - found)));
  }
  return times;
}

Levels at_least(const Interval& interval, double found, const Bounds& bounds) {
  return levels_of({interval.low, found}, bounds);
}

Levels once_shown(const Interval& interval, double found, const Bounds& bounds) {
  return interval.low <= bounds.unchanged ? at_least(interval, found, bounds) : levels_of({found, found}, bounds);
}

Levels shown(const Interval& interval, const Bounds& bounds) { return levels_of({interval.low, interval.low}, bounds); }

Levels worse_of(const Levels& a, const Levels& b) { return {std::max(a.least, b.least), std::max(a.most, b.most)}; }

std::string to_string(const Levels& levels) {
  if (levels.least == levels.most) return name_of(levels.least);
  const bool all = levels.least == Level::unchanged && levels.most == Level::breaks;
  return all ? "undecided" : concat("undecided: ", name_of(levels.least), " or ", name_of(levels.most));
}

void declare_keys(YamlKeys& keys, CheckSettings& settings) {
  keys.integer({"context", "longest context, in tokens; or the model's, if shorter", kRequired}, settings.context, 2,
               kMany);
  keys.integer({"lengths", "lengths per task: the longest that fit", kRequired}, settings.n_lengths, 1, kMany);
  keys.map({"quick", "settings of `kvc check --quick`", kRequired}, [&](YamlKeys& inner) {
    inner.integer({"context", "longest context, in tokens", false, "check.context"}, settings.quick_context, 2, kMany);
    inner.texts({"tasks", "tasks in place of the experiment's", false, "tasks"}, settings.quick_tasks);
    inner.integer({"limit", "samples per length", kRequired}, settings.quick_limit, 1, kMany);
    inner.integer({"lengths", "lengths per task: the longest that fit", kRequired}, settings.quick_n_lengths, 1, kMany);
  });
  keys.map({"bounds", "bounds of the verdicts", kRequired}, [&](YamlKeys& inner) {
    bounds_key(inner, {"kl", "KL divergence from full precision, in nats", kRequired}, 100, 1, false, settings.kl);
    bounds_key(
        inner,
        {"top1", "tokens whose top-1 prediction agrees with full precision, in %; here larger is better", kRequired},
        100, 0.01, true, settings.top1);
    bounds_key(inner, {"passkey", "accuracy lost compared with full precision, in points", kRequired}, 100, 0.01, false,
               settings.passkey);
  });
  keys.real({"outlier_channel",
             "a channel of K counts as an outlier from this multiple of its layer's median mean magnitude", kRequired},
            settings.outlier_channel, 1);
}

CheckSettings load_check_settings(const std::filesystem::path& file) {
  CheckSettings settings;
  auto whole = load_experiment_yaml(file, {});
  read_keys(whole.required("check").map(), [&](YamlKeys& keys) { declare_keys(keys, settings); });
  return settings;
}

}  // namespace kvc
