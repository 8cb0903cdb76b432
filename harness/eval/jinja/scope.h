// Names and their values, from the innermost block outward.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace kvc::jinja {

struct Scope {
  std::shared_ptr<Scope> outer;
  std::vector<std::pair<std::string, Value>> names = {};

  const Value* own(const std::string& name) const {
    for (const auto& [known, value] : names) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  const Value* find(const std::string& name) const {
    for (const auto* scope = this; scope; scope = scope->outer.get()) {
      if (const auto* value = scope->own(name)) return value;
    }
    return nullptr;
  }
  void set(const std::string& name, Value value) {
    for (auto& [known, old] : names) {
      if (known == name) return void(old = std::move(value));
    }
    names.emplace_back(name, std::move(value));
  }
};

// Sets an attribute of a namespace. Throws Error for a name with an underscore first, as transformers does.
void set_member(Run& run, Dict& names, const std::string& name, const Value& value);

}  // namespace kvc::jinja
