// The KL divergence of two compressors on the same tokens.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/window_blocks.h"
#include "stats/interval.h"

namespace kvc {

struct PairedKl {
  int64_t n_windows = 0, n_tokens = 0;        // that both scored
  double kl_a = 0, kl_b = 0, difference = 0;  // nats/token; difference: B - A
  std::optional<Interval> interval;           // 95 %, windows and blocks within them resampled; of 5 windows or more
  std::optional<double> p;                    // two-sided, sign flips of windows; of 5 windows or more
  std::optional<double> sd;                   // of the windows' mean differences; of 2 windows or more
};

// Over the windows and blocks that both have, cell by cell. Throws Error where two windows of one number differ in their
// text.
PairedKl paired_kl(const std::vector<std::pair<TextWindows, TextWindows>>& cells);

// "0.0123"; "0.0012 [0.0004, 0.0021]", without interval where there is none.
std::string kl_text(double nats);
std::string difference_text(const PairedKl& kl);
extern const char* const kPairedKlNote;

}  // namespace kvc
