// The program's statistics for callers in C: what `kvc serve` gives Datasette as SQL functions. The numbers are the
// program's own, since the code is.
#include <cmath>
#include <limits>
#include <vector>

#include "stats/interval.h"

#define KVC_FUNCTION extern "C" __attribute__((visibility("default")))

KVC_FUNCTION double kvc_wilson_low(double k, double n) { return kvc::wilson_interval(k, n).low; }
KVC_FUNCTION double kvc_wilson_high(double k, double n) { return kvc::wilson_interval(k, n).high; }

// `n` >= 1 numbers.
KVC_FUNCTION double kvc_median(const double* values, int n) { return kvc::median({values, values + n}); }
KVC_FUNCTION double kvc_quartile(const double* values, int n, int which) {  // 1, 2 or 3
  return which < 1 || which > 3 ? std::numeric_limits<double>::quiet_NaN() : kvc::quartile({values, values + n}, which);
}
KVC_FUNCTION double kvc_score_low(const double* values, int n) {
  return kvc::score_interval(std::vector<double>(values, values + n)).low;
}
KVC_FUNCTION double kvc_score_high(const double* values, int n) {
  return kvc::score_interval(std::vector<double>(values, values + n)).high;
}
