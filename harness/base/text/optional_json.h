// std::optional as JSON, for the .cpp files that write structs with such fields.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

// null is none
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& json, const std::optional<T>& value) {
    json = value ? nlohmann::json(*value) : nlohmann::json();
  }
  static void from_json(const json& json, std::optional<T>& value) {
    value = json.is_null() ? std::nullopt : std::optional<T>(json.get<T>());
  }
};

#include "text/json.h"
