#include "store/statistics.h"

#include <sqlite3.h>

#include <vector>

#include "kvc/check.h"
#include "stats/interval.h"

namespace kvc {
namespace {

void wilson(sqlite3_context* context, sqlite3_value** values, double Interval::*bound) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL || sqlite3_value_type(values[1]) == SQLITE_NULL) return;
  sqlite3_result_double(context,
                        wilson_interval(sqlite3_value_double(values[0]), sqlite3_value_double(values[1])).*bound);
}

void wilson_low(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::low); }
void wilson_high(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::high); }

// SQLite hands out one zeroed pointer a group; it owns the group's numbers until the aggregate's end.
using Numbers = std::vector<double>;

void collect(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  auto** numbers = static_cast<Numbers**>(sqlite3_aggregate_context(context, sizeof(Numbers*)));
  if (!numbers) return sqlite3_result_error_nomem(context);
  if (!*numbers) *numbers = new Numbers;
  (*numbers)->push_back(sqlite3_value_double(values[0]));
}

Numbers collected(sqlite3_context* context) {
  auto** numbers = static_cast<Numbers**>(sqlite3_aggregate_context(context, 0));
  if (!numbers || !*numbers) return {};
  Numbers taken = std::move(**numbers);
  delete *numbers;
  return taken;
}

void median_final(sqlite3_context* context) {
  const auto numbers = collected(context);
  if (!numbers.empty()) sqlite3_result_double(context, median(numbers));
}

// quartile(x, n): n is the same for a whole group.
struct Quartile {
  Numbers numbers;
  int64_t n = 0;
};

void collect_quartile(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  const int64_t n = sqlite3_value_int64(values[1]);
  if (n < 1 || n > 3) return sqlite3_result_error(context, "quartile(x, n): n is not 1, 2 or 3", -1);
  auto** group = static_cast<Quartile**>(sqlite3_aggregate_context(context, sizeof(Quartile*)));
  if (!group) return sqlite3_result_error_nomem(context);
  if (!*group) *group = new Quartile;
  (*group)->n = n;
  (*group)->numbers.push_back(sqlite3_value_double(values[0]));
}

void quartile_final(sqlite3_context* context) {
  auto** group = static_cast<Quartile**>(sqlite3_aggregate_context(context, 0));
  if (!group || !*group) return;
  sqlite3_result_double(context, quartile(std::move((*group)->numbers), (*group)->n));
  delete *group;
}

template <double Interval::*bound>
void score_bound(sqlite3_context* context) {
  const auto numbers = collected(context);
  if (!numbers.empty()) sqlite3_result_double(context, score_interval(numbers).*bound);
}

}  // namespace

void register_statistics(sqlite3* db) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  bool ok = true;
  const auto add = [&](const char* name, int n_arguments, auto function, auto step, auto final) {
    ok &= sqlite3_create_function(db, name, n_arguments, kFlags, nullptr, function, step, final) == SQLITE_OK;
  };
  add("wilson_low", 2, wilson_low, nullptr, nullptr);
  add("wilson_high", 2, wilson_high, nullptr, nullptr);
  add("median", 1, nullptr, collect, median_final);
  add("quartile", 2, nullptr, collect_quartile, quartile_final);
  add("score_low", 1, nullptr, collect, score_bound<&Interval::low>);
  add("score_high", 1, nullptr, collect, score_bound<&Interval::high>);
  KVC_CHECK(ok, "cannot add functions to SQLite: ", sqlite3_errmsg(db));
}

}  // namespace kvc
