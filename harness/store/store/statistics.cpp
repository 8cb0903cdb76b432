#include "store/statistics.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kvc/check.h"
#include "stats/interval.h"
#include "stats/remembered.h"
#include "stats/repetition.h"

namespace kvc {
namespace {

void wilson(sqlite3_context* context, sqlite3_value** values, double Interval::*bound) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL || sqlite3_value_type(values[1]) == SQLITE_NULL) return;
  sqlite3_result_double(context,
                        wilson_interval(sqlite3_value_double(values[0]), sqlite3_value_double(values[1])).*bound);
}

void wilson_low(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::low); }
void wilson_high(sqlite3_context* context, int, sqlite3_value** values) { wilson(context, values, &Interval::high); }

void loop_of(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
  const auto n = static_cast<size_t>(sqlite3_value_bytes(values[0]));
  sqlite3_result_int(context, ends_in_loop(std::string_view(text, n)));
}

using Numbers = std::vector<double>;

// SQLite hands out one zeroed pointer a group; it owns the group's numbers, by argument, until the aggregate's end.
using Group = std::vector<Numbers>;

// The group that is being collected; null, and said, where there is no memory.
Group* group_of(sqlite3_context* context, size_t n) {
  auto** group = static_cast<Group**>(sqlite3_aggregate_context(context, sizeof(Group*)));
  if (!group) {
    sqlite3_result_error_nomem(context);
    return nullptr;
  }
  if (!*group) *group = new Group(n);
  return *group;
}

void collect(sqlite3_context* context, int n, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  auto* group = group_of(context, static_cast<size_t>(n));
  for (int i = 0; group && i < n; ++i) (*group)[static_cast<size_t>(i)].push_back(sqlite3_value_double(values[i]));
}

Group collected(sqlite3_context* context) {
  auto** group = static_cast<Group**>(sqlite3_aggregate_context(context, 0));
  if (!group || !*group) return {};
  Group taken = std::move(**group);
  delete *group;
  return taken;
}

void median_final(sqlite3_context* context) {
  const auto group = collected(context);
  if (!group.empty()) sqlite3_result_double(context, median(group[0]));
}

// quartile(x, n): n is the same for a whole group.
void quartile_final(sqlite3_context* context) {
  const auto group = collected(context);
  if (group.empty()) return;
  const double n = group[1].back();
  if (n != 1 && n != 2 && n != 3) return sqlite3_result_error(context, "quartile(x, n): n is not 1, 2 or 3", -1);
  sqlite3_result_double(context, quartile(group[0], static_cast<int64_t>(n)));
}

// float_quantile(p, x, first, past): p is the same for a whole group.
void collect_floats(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[1]) == SQLITE_NULL) return;
  auto* group = group_of(context, 2);
  if (!group) return;
  (*group)[0] = {sqlite3_value_double(values[0])};
  const auto* bytes = static_cast<const char*>(sqlite3_value_blob(values[1]));
  const int64_t n = sqlite3_value_bytes(values[1]) / static_cast<int64_t>(sizeof(float));
  const int64_t first = std::max<int64_t>(0, sqlite3_value_int64(values[2]));
  for (int64_t i = first; i < std::min<int64_t>(n, sqlite3_value_int64(values[3])); ++i) {
    float value;
    std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof value), sizeof value);
    (*group)[1].push_back(value);
  }
}

void float_quantile_final(sqlite3_context* context) {
  auto group = collected(context);
  if (group.empty() || group[1].empty()) return;
  const double p = group[0][0];
  if (!(p >= 0 && p <= 1)) return sqlite3_result_error(context, "float_quantile(p, ...): p is not from 0 to 1", -1);
  sqlite3_result_double(context, quantile(std::move(group[1]), p));
}

template <double Interval::*bound>
void score_bound(sqlite3_context* context) {
  const auto group = collected(context);
  if (!group.empty()) sqlite3_result_double(context, remembered_score_interval(group[0]).*bound);
}

template <double Interval::*bound>
void clustered_bound(sqlite3_context* context) {
  const auto group = collected(context);
  if (group.empty()) return;
  if (*std::ranges::min_element(group[1]) <= 0) return sqlite3_result_error(context, "a weight is not above 0", -1);
  if (const auto found = remembered_text_interval(group[0], group[1], group[2])) {
    sqlite3_result_double(context, (*found).*bound);
  }
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
  add("ends_in_loop", 1, loop_of, nullptr, nullptr);
  add("median", 1, nullptr, collect, median_final);
  add("quartile", 2, nullptr, collect, quartile_final);
  add("float_quantile", 4, nullptr, collect_floats, float_quantile_final);
  add("score_low", 1, nullptr, collect, score_bound<&Interval::low>);
  add("score_high", 1, nullptr, collect, score_bound<&Interval::high>);
  add("clustered_low", 3, nullptr, collect, clustered_bound<&Interval::low>);
  add("clustered_high", 3, nullptr, collect, clustered_bound<&Interval::high>);
  KVC_CHECK(ok, "cannot add functions to SQLite: ", sqlite3_errmsg(db));
}

}  // namespace kvc
