// Access to the content of a value: attributes, items, slices, methods.
#pragma once

#include "jinja/arguments.h"

namespace kvc::jinja {

// object.name: a method or attribute of the type, else a dictionary's value; undefined where there is neither. Throws
// Error for an attribute that Python has and that is not supported, by its name.
Value attribute(Run& run, const Value& object, const std::string& name);

// object[key]: the other way round.
Value item(Run& run, const Value& object, const Value& key);

struct Slice {
  std::optional<int64_t> begin, end, step;
};
Value slice(Run& run, const Value& object, const Slice& slice);

// begin, the number of items and the step of a slice of `size` items, as Python's slice.indices.
struct SliceRange {
  int64_t begin, n, step;
};
SliceRange range_of(const Slice& slice, int64_t size);

// A method bound to the text, or nothing.
std::optional<Value> text_method(Run& run, const Value& text, const std::string& name);

Value loop_attribute(Run& run, const std::shared_ptr<Loop>& loop, const std::string& name, bool& is_known);

// Entries as a list of tuples.
std::vector<Value> entries_of(Run& run, const Dict& dict);

}  // namespace kvc::jinja
