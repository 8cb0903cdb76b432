// What figures of a compressor beside full precision amount to, by stated bounds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stats/interval.h"

namespace kvc {

class YamlKeys;

enum class Level { unchanged, small_loss, breaks };

// Of a figure that grows with the loss: up to `unchanged` nothing changes, from `breaks` on the model breaks.
struct Bounds {
  double unchanged = 0, breaks = 0;
};

// What an interval leaves open.
struct Levels {
  Level least = Level::unchanged, most = Level::unchanged;
  bool operator==(const Levels&) const = default;
};
Levels levels_of(const Interval& interval, const Bounds& bounds);

// How many times as many tokens would take the interval off the bounds within it, if the figure stays as found and the
// interval shrinks with the square root of their number; 1: it is off them, infinity: the figure is on one.
double times_needed(const Interval& interval, double found, const Bounds& bounds);

// Of a figure from few windows, which cannot show that nothing is lost: at least the level of the interval's
// lower end, at most that of the estimate.
Levels at_least(const Interval& interval, double found, const Bounds& bounds);

// Of a loss counted in few questions: its estimate counts once the interval excludes `unchanged`; until then as at_least.
Levels once_shown(const Interval& interval, double found, const Bounds& bounds);

// Of a figure that repeats what another one measures with less noise: the level that its whole interval reaches.
Levels shown(const Interval& interval, const Bounds& bounds);

// Of both figures: the worse counts.
Levels worse_of(const Levels& a, const Levels& b);

// "unchanged", "small loss", "breaks"; what is open "undecided: unchanged or small loss".
std::string to_string(const Levels& levels);

// The part `check` of an experiment's file, see configs/check.yaml.
struct CheckSettings {
  int64_t context = 0;    // or the model's, where that is less
  int64_t n_lengths = 0;  // of a task, the longest that fit
  // Where minutes are too long: the same, and samples of each length.
  std::optional<int64_t> quick_context;
  int64_t quick_n_lengths = 0, quick_limit = 0;
  std::vector<std::string> quick_tasks;  // in place of the experiment's; none: the same
  Bounds kl;                             // nats
  Bounds top1;                           // shares that differ
  Bounds passkey;                        // shares lost
  double outlier_channel = 0;            // times the layer's median channel
};

// The keys of that part, and of the settings what they stand for.
void declare_keys(YamlKeys& keys, CheckSettings& settings);

// Throws Error with the place for what is missing or contradicts itself.
CheckSettings load_check_settings(const std::filesystem::path& file);

}  // namespace kvc
