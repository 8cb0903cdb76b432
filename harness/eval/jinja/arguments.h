// What a call gives, and its parameters taken from it one by one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace kvc::jinja {

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

// Takes parameters in their order, each by its place or its name. finish() throws Error where something is left.
class Parameters {
 public:
  // what: "the filter 'join'"
  Parameters(std::string what, Arguments& given) : what_(std::move(what)), given_(given) {}

  std::optional<Value> find(const std::string& name);
  std::optional<Value> by_name(const std::string& name);
  Value take(const std::string& name, Value otherwise) { return find(name).value_or(std::move(otherwise)); }
  Value require(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise);
  int64_t whole(const std::string& name, int64_t otherwise);
  bool truth(const std::string& name, bool otherwise);
  std::vector<Value> rest();
  std::vector<std::pair<std::string, Value>> rest_named() { return std::exchange(given_.named, {}); }
  void finish() const;

  const std::string& what() const { return what_; }

 private:
  std::string what_;
  Arguments& given_;
  size_t at_ = 0;
};

// The text itself; throws Error for another value.
const std::string& text_of(const Value& value, const std::string& what);
int64_t whole_of(const Value& value, const std::string& what);

}  // namespace kvc::jinja
