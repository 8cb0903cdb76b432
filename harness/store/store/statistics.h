// Statistics as SQL functions.
#pragma once

struct sqlite3;

namespace kvc {

// SQL: wilson_low(k, n), wilson_high(k, n); the aggregates median(x), quartile(x, 1, 2 or 3), score_low(x),
// score_high(x), clustered_low(x, weight, window), clustered_high(x, weight, window) and float_quantile(p, x, first,
// past), which skip NULL.
// score_*: the 95 % interval of a mean of scores, Wilson's where every one is 0 or 1, else the bootstrap's.
// float_quantile: below which a share p of the numbers lies; x: blobs of little-endian floats, of each those from
// `first` on, before `past`.
// clustered_*: that of sum(x) / sum(weight) over blocks of tokens in windows of text; NULL for fewer than 5 windows.
void register_statistics(sqlite3* db);

}  // namespace kvc
