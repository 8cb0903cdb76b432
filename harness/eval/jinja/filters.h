// Filters and tests by name.
#pragma once

#include "jinja/arguments.h"

namespace kvc::jinja {

using Filter = Value (*)(Run&, const Value&, Parameters&);
using Test = bool (*)(Run&, const Value&, Parameters&);

struct NamedFilter {
  const char* name;
  Filter filter;  // null: Jinja has it, and it is not supported
};
struct NamedTest {
  const char* name;
  Test test;  // the same
};

// Null where Jinja, too, knows none of that name.
const NamedFilter* find_filter(std::string_view name);
const NamedTest* find_test(std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

// Throws Error for a name that is not supported.
Value apply_filter(Run& run, const std::string& name, const Value& value, Arguments given);
bool apply_test(Run& run, const std::string& name, const Value& value, Arguments given);

// The kinds of filters: text_filters.cpp, list_filters.cpp, plain_filters.cpp.
const std::vector<NamedFilter>& text_filters();
const std::vector<NamedFilter>& list_filters();
const std::vector<NamedFilter>& plain_filters();

// str() of a value that is no text; a text stays as safe as it is.
Value soft_text(Run& run, const Value& value);

// What an `attribute` of a filter names in an item: "a.b.0".
Value inner_item(Run& run, Value value, const Value& path);

}  // namespace kvc::jinja
