// Python's operators.
#pragma once

#include "jinja/value.h"

namespace kvc::jinja {

// +, -, *, /, //, %, **. Integers have 64 bits: what needs more is an Error, as are other types than Python's.
Value calculate(Run& run, const std::string& symbol, const Value& a, const Value& b);
Value negate(const Value& value);

// ==, !=, <, <=, >, >=, in, not in
bool compares(Run& run, const std::string& symbol, const Value& a, const Value& b);

bool contains(Run& run, const Value& container, const Value& value);

}  // namespace kvc::jinja
