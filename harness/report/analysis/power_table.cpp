#include "analysis/power_table.h"

#include <algorithm>
#include <cmath>

#include "analysis/paired_kl.h"
#include "kvc/check.h"

namespace kvc {
namespace {

constexpr auto kRight = TableColumn::Align::kRight;

TableCell points(std::optional<double> share) { return share ? TableCell(100 * *share) : TableCell(); }
TableCell count(std::optional<int64_t> n) { return n ? TableCell(*n) : TableCell(); }

// Nothing to plan with: no pair differs.
bool is_still(const PowerCase& c) { return c.discordant.value_or(0) == 0 && c.sd.value_or(0) == 0; }
// More than all pairs that differ can make.
bool is_beyond(const PowerCase& c) { return c.discordant && std::abs(c.difference.value_or(0)) > *c.discordant; }

std::vector<TableCell> seen(const PowerCase& c, const PowerTarget& target) {
  if (!c.n || is_still(c)) return {TableCell(), TableCell()};
  if (c.sd) return {*c.n < 2 ? TableCell() : points(seen_difference_t(*c.n, *c.sd, target)), TableCell()};
  return {points(seen_difference_exact(*c.n, *c.discordant, target)),
          points(seen_difference(*c.n, *c.discordant, target))};
}

std::vector<TableCell> needed(const PowerCase& c, const PowerTarget& target) {
  const double difference = std::abs(c.difference.value_or(0));
  if (difference == 0 || is_still(c) || is_beyond(c)) return {TableCell(), TableCell()};
  if (c.sd) return {count(pairs_needed_t(difference, *c.sd, target)), TableCell()};
  return {count(pairs_needed_exact(difference, *c.discordant, target)),
          pairs_needed(difference, *c.discordant, target)};
}

template <class Predicate>
bool any(const std::vector<PowerCase>& cases, Predicate has) {
  return std::any_of(cases.begin(), cases.end(), has);
}

struct Shown {  // columns that the cases need
  bool compressor, task, n, discordant, sd, difference;
};

Shown shown_columns(const std::vector<PowerCase>& cases) {
  return {any(cases, [](const auto& c) { return !c.compressor.empty(); }),
          any(cases, [](const auto& c) { return !c.task.empty(); }),
          any(cases, [](const auto& c) { return c.n.has_value(); }),
          any(cases, [](const auto& c) { return c.discordant.has_value(); }),
          any(cases, [](const auto& c) { return c.sd.has_value(); }),
          any(cases, [](const auto& c) { return c.difference.has_value(); })};
}

std::vector<TableColumn> columns(const Shown& shown) {
  std::vector<TableColumn> columns;
  if (shown.compressor) columns.push_back({"compressor"});
  if (shown.task) columns.push_back({"task"});
  if (shown.n) columns.push_back({"n", kRight});
  if (shown.discordant) columns.push_back({"discordant", kRight, "%", 1});
  if (shown.sd) columns.push_back({"sd", kRight, "points", 1});
  columns.push_back({"test"});
  if (shown.n) {
    columns.push_back({"detectable", kRight, "points", 1});
    columns.push_back({"detectable, normal", kRight, "points", 1});
  }
  if (shown.difference) {
    columns.push_back({"difference", kRight, "points", 2});
    columns.push_back({"n needed", kRight});
    columns.push_back({"n needed, normal", kRight});
  }
  return columns;
}

std::vector<TableCell> cells(const PowerCase& c, const Shown& shown, const PowerTarget& target) {
  std::vector<TableCell> row;
  const auto append = [&](const std::vector<TableCell>& more) { row.insert(row.end(), more.begin(), more.end()); };
  if (shown.compressor) row.emplace_back(c.compressor);
  if (shown.task) row.emplace_back(c.task);
  if (shown.n) row.push_back(count(c.n));
  if (shown.discordant) row.push_back(points(c.discordant));
  if (shown.sd) row.push_back(points(c.sd));
  row.emplace_back(c.sd ? "paired t" : "McNemar (exact)");
  if (shown.n) append(seen(c, target));
  if (shown.difference) {
    row.push_back(points(c.difference));
    append(needed(c, target));
  }
  return row;
}

}  // namespace

Table power_table(const std::vector<PowerCase>& cases, const PowerTarget& target) {
  const auto shown = shown_columns(cases);
  Table table;
  table.title = concat("power ", target.power, ", two-sided at ", target.alpha);
  table.columns = columns(shown);
  for (const auto& c : cases) {
    KVC_CHECK(c.discordant.has_value() != c.sd.has_value(),
              "power: a discordant fraction or a standard deviation, not both");
    table.rows.push_back(cells(c, shown, target));
  }
  table.notes = {
      "detectable: the smallest true difference that the test detects with that power; normal: normal approximation, "
      "(z(1 - alpha/2) + z(power)) sqrt(discordant / n)"};
  if (shown.n)
    table.notes.push_back("detectable is empty if even all discordant pairs in one direction would not be significant");
  if (any(cases, is_still)) table.notes.push_back("no value if no pair differs: nothing to plan with");
  if (any(cases, is_beyond)) table.notes.push_back("no n if the difference exceeds the fraction of discordant pairs");
  return table;
}

Table kl_power_table(const std::vector<KlPowerCase>& cases, const PowerTarget& target) {
  Table table;
  table.title = concat("KL by window: power ", target.power, ", two-sided at ", target.alpha);
  table.columns = {{"compressor"},
                   {"task"},
                   {"windows", kRight},
                   {"KL A", kRight, "nats"},
                   {"KL B", kRight, "nats"},
                   {"sd", kRight, "nats"},
                   {"detectable", kRight, "nats"},
                   {"difference", kRight, "nats"},
                   {"windows needed", kRight}};
  const auto nats = [](std::optional<double> x) { return x ? TableCell(kl_text(*x)) : TableCell(); };
  for (const auto& c : cases) {
    const bool can_plan = c.sd && *c.sd > 0;
    const double difference = std::abs(c.difference.value_or(0));
    const auto detectable = can_plan ? std::optional(seen_difference_t(c.n_windows, *c.sd, target)) : std::nullopt;
    const auto needed = can_plan && difference > 0 ? pairs_needed_t(difference, *c.sd, target) : std::nullopt;
    table.rows.push_back({c.compressor, c.task, c.n_windows, nats(c.kl_a), nats(c.kl_b), nats(c.sd), nats(detectable),
                          nats(c.difference), count(needed)});
  }
  table.notes = {
      "detectable: the smallest true difference of mean KL that a paired t test over windows detects with that power; "
      "sd: of the windows' differences"};
  return table;
}

}  // namespace kvc
