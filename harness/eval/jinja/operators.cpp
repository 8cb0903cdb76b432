#include "jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "jinja/text_tools.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

void check_defined(const Value& a, const Value& b) {
  for (const auto* value : {&a, &b}) KVC_CHECK(!value->undefined(), *value->undefined()->why);
}

[[noreturn]] void refuse(const std::string& symbol, const Value& a, const Value& b) {
  throw Error(concat("'", symbol, "' is not supported between '", type_name(a), "' and '", type_name(b), "'"));
}

double real_of(const Value& value) { return value.real() ? *value.real() : static_cast<double>(*value.whole()); }

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (bool fits = true; exponent > 0; exponent >>= 1) {
    if (exponent & 1) fits = !__builtin_mul_overflow(result, base, &result);
    if (fits && exponent > 1) fits = !__builtin_mul_overflow(base, base, &base);
    KVC_CHECK(fits, "an integer has more than 64 bits");
  }
  return result;
}

Value divide_whole(const std::string& symbol, int64_t a, int64_t b) {
  KVC_CHECK(b != 0, "division by zero");
  KVC_CHECK(b != -1 || a != INT64_MIN, "an integer has more than 64 bits");
  const int64_t quotient = a / b, rest = a % b;
  const bool rounds_up = rest != 0 && (rest < 0) != (b < 0);  // C's division rounds to zero, Python's down
  return symbol == "//" ? quotient - rounds_up : rounds_up ? rest + b : rest;
}

Value calculate_whole(const std::string& symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  bool fits = true;
  if (symbol == "+") {
    fits = !__builtin_add_overflow(a, b, &result);
  } else if (symbol == "-") {
    fits = !__builtin_sub_overflow(a, b, &result);
  } else if (symbol == "*") {
    fits = !__builtin_mul_overflow(a, b, &result);
  } else if (symbol == "/") {
    KVC_CHECK(b != 0, "division by zero");
    return static_cast<double>(a) / static_cast<double>(b);
  } else if (symbol == "**") {
    if (b >= 0) return (a == 0 || a == 1) ? int64_t{b == 0 || a == 1} : a == -1 ? int64_t{b % 2 ? -1 : 1} : power(a, b);
    KVC_CHECK(a != 0, "0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  } else {
    return divide_whole(symbol, a, b);
  }
  KVC_CHECK(fits, "an integer has more than 64 bits");
  return result;
}

Value calculate_real(const std::string& symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (symbol == "**") {
    KVC_CHECK(a != 0 || b >= 0, "0 cannot be raised to a negative power");
    KVC_CHECK(a >= 0 || b == std::floor(b), "a power that is no real number");
    const double result = std::pow(a, b);
    KVC_CHECK(!std::isinf(result) || std::isinf(a) || std::isinf(b), "a number is too large");
    return result;
  }
  KVC_CHECK(b != 0, "division by zero");
  if (symbol == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  if (symbol == "%") return rest;
  const double quotient = (a - rest) / b, floor = std::floor(quotient);
  if (quotient == 0) return std::copysign(0.0, a / b);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value add(Run& run, const Value& a, const Value& b) {
  if (a.text() && b.text()) {
    const bool is_safe = a.text()->is_safe || b.text()->is_safe;
    const auto part = [&](const Text& text) {
      return is_safe && !text.is_safe ? escape_html(run, text.utf8) : text.utf8;
    };
    Builder out(run);
    out << part(*a.text()) << part(*b.text());
    return make_text(run, out.finish(), is_safe);
  }
  const auto *left = a.indexed(), *right = b.indexed();
  if (!left || !right || left->kind != right->kind || left->kind == Kind::range) refuse("+", a, b);
  run.take((left->items.size() + right->items.size()) * sizeof(Value));
  auto items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return make_sequence(run, std::move(items), left->kind);
}

Value repeat(Run& run, const Value& a, const Value& b) {
  const auto& many = a.whole() ? b : a;
  const auto n = a.whole() ? a.whole() : b.whole();
  if (!n) refuse("*", a, b);
  if (const auto* text = many.text()) {
    Builder out(run);
    for (int64_t i = 0; i < *n && !text->utf8.empty(); ++i) out << text->utf8;
    return make_text(run, out.finish(), text->is_safe);
  }
  const auto* list = many.indexed();
  if (!list || list->kind == Kind::range) refuse("*", a, b);
  std::vector<Value> items;
  for (int64_t i = 0; i < *n && !list->items.empty(); ++i) {
    run.take(list->items.size() * sizeof(Value));
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  return make_sequence(run, std::move(items), list->kind);
}

}  // namespace

Value calculate(Run& run, const std::string& symbol, const Value& a, const Value& b) {
  KVC_CHECK(symbol != "%" || !a.text(), "% between a text and values is not supported");
  check_defined(a, b);
  if (a.whole() && b.whole()) return calculate_whole(symbol, *a.whole(), *b.whole());
  if (a.is_number() && b.is_number()) return calculate_real(symbol, real_of(a), real_of(b));
  if (symbol == "+") return add(run, a, b);
  if (symbol == "*") return repeat(run, a, b);
  refuse(symbol, a, b);
}

Value negate(const Value& value) {
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  KVC_CHECK(value.is_number(), "'-' is not supported before '", type_name(value), "'");
  if (value.real()) return -*value.real();
  return calculate_whole("-", 0, *value.whole());
}

bool compares(Run& run, const std::string& symbol, const Value& a, const Value& b) {
  if (symbol == "==") return is_equal(run, a, b);
  if (symbol == "!=") return !is_equal(run, a, b);
  if (symbol == "in") return contains(run, b, a);
  if (symbol == "not in") return !contains(run, b, a);
  const bool is_nan = (a.real() && std::isnan(*a.real())) || (b.real() && std::isnan(*b.real()));
  if (symbol == "<") return is_less(run, a, b);
  if (symbol == ">") return is_less(run, b, a);
  if (symbol == "<=") return !is_less(run, b, a) && !is_nan;
  return !is_less(run, a, b) && !is_nan;
}

bool contains(Run& run, const Value& container, const Value& value) {
  if (container.undefined()) return false;
  if (const auto* text = container.text()) {
    KVC_CHECK(value.text(), "'in' asks a text for '", type_name(value), "', expected a text");
    run.step(static_cast<int64_t>(text->utf8.size() >> 8));
    return find_text(text->utf8, value.text()->utf8) != std::string_view::npos;
  }
  if (const auto* dict = container.dict()) return find(run, *dict, value) != nullptr;
  KVC_CHECK(container.sequence(), "argument of type '", type_name(container), "' is not iterable");
  const auto items = items_of(run, container);
  return std::any_of(items.begin(), items.end(), [&](const auto& one) {
    return (one.identity() && one.identity() == value.identity()) || is_equal(run, one, value);
  });
}

}  // namespace kvc::jinja
