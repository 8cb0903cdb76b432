#include "jinja/arguments.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvc::jinja {

std::optional<Value> Parameters::find(const std::string& name) {
  auto named = by_name(name);
  if (at_ == given_.values.size()) return named;
  KVC_CHECK(!named, what_, " gets '", name, "' twice");
  return given_.values[at_++];
}

std::optional<Value> Parameters::by_name(const std::string& name) {
  const auto found =
      std::find_if(given_.named.begin(), given_.named.end(), [&](const auto& one) { return one.first == name; });
  if (found == given_.named.end()) return std::nullopt;
  auto value = std::move(found->second);
  given_.named.erase(found);
  return value;
}

Value Parameters::require(const std::string& name) {
  auto value = find(name);
  KVC_CHECK(value, what_, " lacks its argument '", name, "'");
  return *value;
}

std::string Parameters::text(const std::string& name, const std::string& otherwise) {
  const auto value = find(name);
  return value ? text_of(*value, concat(what_, ": ", name)) : otherwise;
}

int64_t Parameters::whole(const std::string& name, int64_t otherwise) {
  const auto value = find(name);
  return value ? whole_of(*value, concat(what_, ": ", name)) : otherwise;
}

bool Parameters::truth(const std::string& name, bool otherwise) {
  const auto value = find(name);
  return value ? is_true(*value) : otherwise;
}

std::vector<Value> Parameters::rest() {
  std::vector<Value> values(given_.values.begin() + static_cast<std::ptrdiff_t>(at_), given_.values.end());
  at_ = given_.values.size();
  return values;
}

void Parameters::finish() const {
  KVC_CHECK(at_ == given_.values.size(), what_, " has ", given_.values.size(), " arguments, expected at most ", at_);
  KVC_CHECK(given_.named.empty(), what_, " has no argument '", given_.named.front().first, "'");
}

const std::string& text_of(const Value& value, const std::string& what) {
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  KVC_CHECK(value.text(), what, " is of type ", type_name(value), ", expected a text");
  return value.text()->utf8;
}

int64_t whole_of(const Value& value, const std::string& what) {
  KVC_CHECK(!value.undefined(), *value.undefined()->why);
  const auto whole = value.whole();
  KVC_CHECK(whole, what, " is of type ", type_name(value), ", expected an integer");
  return *whole;
}

}  // namespace kvc::jinja
