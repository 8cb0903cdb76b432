// The program's statistics for callers in C: what `kvc serve` gives Datasette as SQL functions. The numbers are the
// program's own, since the code is.
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "stats/interval.h"
#include "stats/interval_views.h"
#include "stats/remembered.h"
#include "stats/repetition.h"

#define KVC_FUNCTION extern "C" __attribute__((visibility("default")))

KVC_FUNCTION double kvc_wilson_low(double k, double n) { return kvc::wilson_interval(k, n).low; }
KVC_FUNCTION double kvc_wilson_high(double k, double n) { return kvc::wilson_interval(k, n).high; }

KVC_FUNCTION int kvc_ends_in_loop(const char* token_ids_json, int n) {
  return kvc::ends_in_loop(std::string_view(token_ids_json, static_cast<size_t>(n)));
}

// `n` >= 1 numbers.
KVC_FUNCTION double kvc_median(const double* values, int n) { return kvc::median({values, values + n}); }
KVC_FUNCTION double kvc_quartile(const double* values, int n, int which) {  // 1, 2 or 3
  return which < 1 || which > 3 ? std::numeric_limits<double>::quiet_NaN() : kvc::quartile({values, values + n}, which);
}
KVC_FUNCTION double kvc_score_low(const double* values, int n) {
  return kvc::remembered_score_interval({values, values + n}).low;
}
KVC_FUNCTION double kvc_score_high(const double* values, int n) {
  return kvc::remembered_score_interval({values, values + n}).high;
}

// NaN: too few windows for an interval.
static kvc::Interval of_texts(const double* values, const double* weights, const double* windows, int n) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return kvc::remembered_text_interval({values, values + n}, {weights, weights + n}, {windows, windows + n})
      .value_or(kvc::Interval{kNone, kNone});
}
KVC_FUNCTION double kvc_clustered_low(const double* values, const double* weights, const double* windows, int n) {
  return of_texts(values, weights, windows, n).low;
}
KVC_FUNCTION double kvc_clustered_high(const double* values, const double* weights, const double* windows, int n) {
  return of_texts(values, weights, windows, n).high;
}

// A statement for each connection that has the functions; valid as long as the library is.
KVC_FUNCTION const char* kvc_interval_views() {
  static const std::string sql(kvc::interval_views());
  return sql.c_str();
}
