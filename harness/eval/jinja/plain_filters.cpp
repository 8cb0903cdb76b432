// Filters of numbers and of any value; tests.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/text_tools.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

Value default_filter(Run& run, const Value& value, Parameters& parameters) {
  const auto otherwise = parameters.take("default_value", make_text(run, ""));
  const bool by_truth = parameters.truth("boolean", false);
  return value.undefined() || (by_truth && !is_true(value)) ? otherwise : value;
}

std::optional<double> parse_real(std::string_view text) {
  auto written = std::string(trimmed(text, nullptr, Side::both));
  std::erase(written, '_');
  std::string_view rest = written;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const bool is_all = !rest.empty() && end.ptr == rest.data() + rest.size() && !rest.starts_with("+") &&
                      rest.find('(') == std::string_view::npos;
  if (is_all && end.ec == std::errc::result_out_of_range) return std::strtod(written.c_str(), nullptr);
  return is_all && end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  auto written = std::string(trimmed(text, nullptr, Side::both));
  std::erase(written, '_');
  std::string_view rest = written;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  int64_t value = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const bool is_all = !rest.empty() && end.ptr == rest.data() + rest.size();
  KVC_CHECK(!is_all || end.ec == std::errc(), "the integer ", in_quotes(written), " has more than 64 bits");
  return is_all ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> truncate(double real) {
  if (std::isnan(real)) return std::nullopt;
  KVC_CHECK(std::abs(real) < 9.2e18, "the number ", real_text(real), " is no integer of 64 bits");
  return static_cast<int64_t>(real);
}

Value int_filter(Run&, const Value& value, Parameters& parameters) {
  const auto otherwise = parameters.take("default", int64_t{0});
  KVC_CHECK(parameters.whole("base", 10) == 10, "the filter 'int': another base than 10 is not supported");
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  std::optional<int64_t> whole = value.whole();
  if (value.real()) whole = truncate(*value.real());
  if (value.text()) {
    whole = parse_whole(value.text()->utf8);
    const auto real = whole ? std::nullopt : parse_real(value.text()->utf8);
    if (real && !std::isinf(*real)) whole = truncate(*real);
  }
  return whole ? Value(*whole) : otherwise;
}

Value float_filter(Run&, const Value& value, Parameters& parameters) {
  const auto otherwise = parameters.take("default", 0.0);
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  if (value.real()) return value;
  if (value.whole()) return static_cast<double>(*value.whole());
  const auto real = value.text() ? parse_real(value.text()->utf8) : std::nullopt;
  return real ? Value(*real) : otherwise;
}

Value abs_filter(Run&, const Value& value, Parameters&) {
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  KVC_CHECK(value.is_number(), "the filter 'abs' got a value of type ", type_name(value), ", expected a number");
  if (value.real()) return std::abs(*value.real());
  return *value.whole() < 0 ? negate(value) : Value(*value.whole());
}

Value round_filter(Run&, const Value& value, Parameters& parameters) {
  const auto precision = parameters.whole("precision", 0);
  const auto method = parameters.text("method", "common");
  KVC_CHECK(method == "common" || method == "ceil" || method == "floor", "the filter 'round': method is ",
            in_quotes(method), ", expected common, ceil or floor");
  KVC_CHECK(precision >= 0 && precision <= 100, "the filter 'round': precision is ", precision, ", allowed: 0 to 100");
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  KVC_CHECK(value.is_number(), "the filter 'round' got a value of type ", type_name(value), ", expected a number");
  if (method == "common" && value.whole()) return *value.whole();
  const double real = value.real() ? *value.real() : static_cast<double>(*value.whole());
  if (!std::isfinite(real)) return real;
  if (method == "common") {
    char buffer[512];  // 309 digits before the decimal point, 100 after it
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), real);
    return std::strtod(buffer, nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return (method == "ceil" ? std::ceil(real * scale) : std::floor(real * scale)) / scale;
}

int64_t modulo(Run& run, const Value& value, int64_t by) {
  const auto rest = calculate(run, "%", value, by);
  return rest.whole()                               ? *rest.whole()
         : *rest.real() == std::floor(*rest.real()) ? static_cast<int64_t>(*rest.real())
                                                    : -1;
}

const std::vector<NamedTest>& tests() {
  using V = const Value&;
  using P = Parameters;
  static const Test equals = [](Run& run, V v, P& p) { return is_equal(run, v, p.require("other")); };
  static const Test differs = [](Run& run, V v, P& p) { return !is_equal(run, v, p.require("other")); };
  static const Test less = [](Run& run, V v, P& p) { return compares(run, "<", v, p.require("other")); };
  static const Test less_equal = [](Run& run, V v, P& p) { return compares(run, "<=", v, p.require("other")); };
  static const Test greater = [](Run& run, V v, P& p) { return compares(run, ">", v, p.require("other")); };
  static const Test greater_equal = [](Run& run, V v, P& p) { return compares(run, ">=", v, p.require("other")); };
  static const std::vector<NamedTest> all = {
      {"defined", [](Run&, V v, P&) { return !v.undefined(); }},
      {"undefined", [](Run&, V v, P&) { return v.undefined() != nullptr; }},
      {"none", [](Run&, V v, P&) { return v.is_none(); }},
      {"boolean", [](Run&, V v, P&) { return v.boolean() != nullptr; }},
      {"true", [](Run&, V v, P&) { return v.boolean() && *v.boolean(); }},
      {"false", [](Run&, V v, P&) { return v.boolean() && !*v.boolean(); }},
      {"integer", [](Run&, V v, P&) { return v.integer() != nullptr; }},
      {"float", [](Run&, V v, P&) { return v.real() != nullptr; }},
      {"number", [](Run&, V v, P&) { return v.is_number(); }},
      {"string", [](Run&, V v, P&) { return v.text() != nullptr; }},
      {"mapping", [](Run&, V v, P&) { return v.dict() != nullptr; }},
      {"sequence", [](Run&, V v, P&) { return v.undefined() || v.text() || v.dict() || v.indexed(); }},
      {"iterable", [](Run&, V v, P&) { return v.undefined() || v.text() || v.dict() || v.sequence() || v.loop(); }},
      {"callable", [](Run&, V v, P&) { return v.callable() || v.loop() || v.undefined(); }},
      {"escaped", [](Run&, V v, P&) { return v.text() && v.text()->is_safe; }},
      {"odd", [](Run& run, V v, P&) { return modulo(run, v, 2) == 1; }},
      {"even", [](Run& run, V v, P&) { return modulo(run, v, 2) == 0; }},
      {"divisibleby", [](Run& run, V v, P& p) { return modulo(run, v, whole_of(p.require("num"), "num")) == 0; }},
      {"lower", [](Run& run, V v, P&) { return has_property(to_text(run, v), "islower"); }},
      {"upper", [](Run& run, V v, P&) { return has_property(to_text(run, v), "isupper"); }},
      {"in", [](Run& run, V v, P& p) { return contains(run, p.require("seq"), v); }},
      {"sameas",
       [](Run& run, V v, P& p) {
         const auto other = p.require("other");
         if (v.identity() || other.identity()) return v.identity() == other.identity();
         return type_name(v) == type_name(other) && is_equal(run, v, other);
       }},
      {"filter", [](Run& run, V v, P&) { return find_filter(to_text(run, v)) != nullptr; }},
      {"test", [](Run& run, V v, P&) { return find_test(to_text(run, v)) != nullptr; }},
      {"==", equals},
      {"eq", equals},
      {"equalto", equals},
      {"!=", differs},
      {"ne", differs},
      {"<", less},
      {"lt", less},
      {"lessthan", less},
      {"<=", less_equal},
      {"le", less_equal},
      {">", greater},
      {"gt", greater},
      {"greaterthan", greater},
      {">=", greater_equal},
      {"ge", greater_equal}};
  return all;
}

}  // namespace

const std::vector<NamedFilter>& plain_filters() {
  static const std::vector<NamedFilter> all = {{"default", default_filter}, {"d", default_filter},
                                               {"int", int_filter},         {"float", float_filter},
                                               {"abs", abs_filter},         {"round", round_filter}};
  return all;
}

const NamedTest* find_test(std::string_view name) {
  const auto found = std::find_if(tests().begin(), tests().end(), [&](const auto& one) { return name == one.name; });
  return found == tests().end() ? nullptr : &*found;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const auto& one : tests()) names.emplace_back(one.name);
  return names;
}

}  // namespace kvc::jinja
