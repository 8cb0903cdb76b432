#include "wire/messages.h"

#include <cmath>
#include <type_traits>

namespace kvc {
namespace {

template <class Number>
void read_number(const nlohmann::json& json, Number& value) {
  if constexpr (std::is_same_v<Number, double>) {
    value = json.is_null() ? std::nan("") : json.get<double>();
  } else {
    json.get_to(value);
  }
}

}  // namespace

// NaN is null.
void to_json(nlohmann::json& json, const ProbeRow& row) {
  json = {row.measure, row.layer, row.head, row.tensor, row.step, row.value};
}

void from_json(const nlohmann::json& json, ProbeRow& row) {
  json.at(0).get_to(row.measure);
  json.at(1).get_to(row.layer);
  json.at(2).get_to(row.head);
  json.at(3).get_to(row.tensor);
  json.at(4).get_to(row.step);
  read_number(json.at(5), row.value);
}

void to_json(nlohmann::json& json, const Measurement& measured) {
  Measurement::visit(measured, [&](const char* name, const auto& value) { json[name] = value; });
}

void from_json(const nlohmann::json& json, Measurement& measured) {
  Measurement::visit(measured, [&](const char* name, auto& value) { read_number(json.at(name), value); });
}

}  // namespace kvc
