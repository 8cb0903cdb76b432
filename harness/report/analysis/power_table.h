// `kvc power`: what n questions can show, and how many a difference needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "render/table.h"
#include "stats/power.h"

namespace kvc {

// One row: right/wrong answers of which a share `discordant` changes, or graded scores whose differences have the
// standard deviation `sd`. Shares of the full score.
struct PowerCase {
  std::string compressor, task;  // "" in all cases: no column
  std::optional<int64_t> n;
  std::optional<double> discordant, sd;  // one of both
  std::optional<double> difference;      // the pairs that it needs are wanted
};

// One row of texts: KL of B less that of A by window, in nats per token.
struct KlPowerCase {
  std::string compressor, task;
  int64_t n_windows = 0;
  double kl_a = 0, kl_b = 0;
  std::optional<double> sd;          // of the windows' differences
  std::optional<double> difference;  // the windows that it needs are wanted
};

Table kl_power_table(const std::vector<KlPowerCase>& cases, const PowerTarget& target);
Table power_table(const std::vector<PowerCase>& cases, const PowerTarget& target);

}  // namespace kvc
