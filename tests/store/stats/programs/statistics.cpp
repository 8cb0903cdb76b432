// Answers for statistics_parity.py: one JSON request a line on stdin, one JSON answer a line on stdout.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "stats/interval.h"
#include "stats/paired.h"
#include "stats/power.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

Json pair_of(const Interval& interval) { return {interval.low, interval.high}; }
Json pair_of(const Equivalence& tost) { return {tost.p_no_worse, tost.p_no_better}; }

template <class Value>
Json maybe(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

PairedCounts counts_of(const Json& request) { return {request.at("n"), request.at("b"), request.at("c")}; }

Json of_table(const Json& request) {
  const auto counts = counts_of(request);
  return {{"mcnemar", mcnemar_exact(counts.right_to_wrong, counts.wrong_to_right)},
          {"tango", pair_of(tango_interval(counts, request.at("confidence")))},
          {"tost", pair_of(tost_binary(counts, request.at("margin")))},
          {"wilson", pair_of(wilson_interval(request.at("k"), request.at("n"), request.at("confidence")))}};
}

Json of_values(const Json& request) {
  const std::vector<double> values = request.at("values");
  const Resampling how{request.at("n_draws"), request.at("seed")};
  const auto flips = sign_flip_test(values, how);
  return {{"bootstrap", pair_of(bootstrap_interval(values, request.at("confidence"), how))},
          {"sign_flip", flips.p},
          {"is_exact", flips.is_exact},
          {"tost", pair_of(tost_t(values, request.at("margin")))}};
}

Json of_power(const Json& request) {
  const PowerTarget target{request.at("alpha"), request.at("power")};
  const int64_t n = request.at("n");
  const double discordant = request.at("discordant"), difference = request.at("difference"), sd = request.at("sd");
  return {{"seen", seen_difference(n, discordant, target)},
          {"needed", pairs_needed(difference, discordant, target)},
          {"mcnemar", mcnemar_power(n, difference, discordant, target.alpha)},
          {"seen_exact", maybe(seen_difference_exact(n, discordant, target))},
          {"needed_exact", maybe(pairs_needed_exact(difference, discordant, target))},
          {"t", paired_t_power(n, difference, sd, target.alpha)},
          {"seen_t", seen_difference_t(n, sd, target)},
          {"needed_t", maybe(pairs_needed_t(difference, sd, target))}};
}

Json answer(const Json& request) {
  const std::string what = request.at("what");
  if (what == "table") return of_table(request);
  if (what == "values") return of_values(request);
  if (what == "power") return of_power(request);
  return holm(request.at("p_values").get<std::vector<double>>());
}

}  // namespace
}  // namespace kvc

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << kvc::answer(nlohmann::json::parse(line)).dump() << "\n";
}
