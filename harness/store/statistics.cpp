#include "store/statistics.h"

#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kvc/check.h"

namespace kvc {
namespace {

constexpr double kZ95 = 1.959963984540054;  // the normal distribution's 97.5 % quantile

void wilson(sqlite3_context* context, sqlite3_value** values, double Interval::*bound) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL || sqlite3_value_type(values[1]) == SQLITE_NULL) return;
  sqlite3_result_double(context,
                        wilson_interval(sqlite3_value_double(values[0]), sqlite3_value_double(values[1])).*bound);
}

void wilson_low(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::low); }
void wilson_high(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::high); }

// SQLite hands out one zeroed pointer a group; it owns the group's numbers until median_final.
using Numbers = std::vector<double>;

void median_step(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  auto** numbers = static_cast<Numbers**>(sqlite3_aggregate_context(context, sizeof(Numbers*)));
  if (!numbers) return sqlite3_result_error_nomem(context);
  if (!*numbers) *numbers = new Numbers;
  (*numbers)->push_back(sqlite3_value_double(values[0]));
}

void median_final(sqlite3_context* context) {
  auto** numbers = static_cast<Numbers**>(sqlite3_aggregate_context(context, 0));
  if (!numbers || !*numbers) return;
  Numbers sorted = std::move(**numbers);
  delete *numbers;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  sqlite3_result_double(context, sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2);
}

}  // namespace

Interval wilson_interval(double k, double n) {
  if (n <= 0) return {0, 1};
  const double p = k / n, z2 = kZ95 * kZ95;
  const double center = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double half_width = kZ95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {std::max(0.0, center - half_width), std::min(1.0, center + half_width)};
}

void register_statistics(sqlite3* db) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  const bool ok =
      sqlite3_create_function(db, "wilson_low", 2, kFlags, nullptr, wilson_low, nullptr, nullptr) == SQLITE_OK &&
      sqlite3_create_function(db, "wilson_high", 2, kFlags, nullptr, wilson_high, nullptr, nullptr) == SQLITE_OK &&
      sqlite3_create_function(db, "median", 1, kFlags, nullptr, nullptr, median_step, median_final) == SQLITE_OK;
  KVC_CHECK(ok, "cannot add functions to SQLite: ", sqlite3_errmsg(db));
}

}  // namespace kvc
