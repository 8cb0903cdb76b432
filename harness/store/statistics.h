// Confidence intervals, and the aggregate that SQLite lacks.
#pragma once

struct sqlite3;

namespace kvc {

struct Interval {
  double low = 0, high = 0;
};

// Wilson's 95 % score interval of a proportion k/n (E. B. Wilson, JASA 1927), in closed form; [0, 1] when n = 0.
// k may be a sum of scores between 0 and 1: those vary less than hits and misses of the same mean, so the interval is
// wide.
Interval wilson_interval(double k, double n);

// SQL: wilson_low(k, n), wilson_high(k, n), and the aggregate median(x), which skips NULL.
void register_statistics(sqlite3* db);

}  // namespace kvc
