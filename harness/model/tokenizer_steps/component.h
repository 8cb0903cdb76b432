// What the tokenizer's components share: their "pattern" fields, and finding a component by its type.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_reader.h"
#include "tokenizer_steps/tokenizer_regex.h"

namespace kvc {

using FindAll = std::function<std::vector<Match>(std::string_view)>;

// {"String": "..."} or {"Regex": "..."} -> its matches in a text
FindAll parse_pattern(const JsonObject& component, const std::string& field);

// Each place where `wanted` stands, the leftmost first; none for an empty one.
FindAll find_text(std::string wanted);

// Each character with `property` is one match.
FindAll find_characters(bool (*property)(char32_t));

// Throws Error where components have made n_bytes of a text of n_bytes_before that are out of all proportion: no real
// tokenizer comes near, and replacements that multiply a text step by step do not take the machine with them.
void check_growth(size_t n_bytes_before, size_t n_bytes);

std::string replace_all(std::string_view text, const FindAll& find, std::string_view replacement);

// Throws Error naming where the component stands, its type and the types that are supported.
[[noreturn]] void refuse_component(const JsonObject& component, const std::vector<std::string>& supported);

// The row {name, make} of a component's type.
template <class Row>
const Row& find_component(const JsonObject& component, std::span<const Row> rows) {
  const auto type = component.text("type");
  std::vector<std::string> supported;
  for (const auto& row : rows) {
    if (type == row.type) return row;
    supported.emplace_back(row.type);
  }
  refuse_component(component, supported);
}

}  // namespace kvc
