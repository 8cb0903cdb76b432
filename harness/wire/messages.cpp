#include "wire/messages.h"

#include <cmath>

namespace kvc {

void to_json(nlohmann::json& json, const RuleScope& scope) {
  json = {{"layers", scope.layers}, {"tensor", nullptr}, {"decode", nullptr}};
  if (scope.tensor) json["tensor"] = to_string(*scope.tensor);
  if (scope.decode) json["decode"] = *scope.decode;
}

void from_json(const nlohmann::json& json, RuleScope& scope) {
  json.at("layers").get_to(scope.layers);
  if (const auto& tensor = json.at("tensor"); !tensor.is_null()) {
    scope.tensor = tensor == "k" ? CacheTensor::k : CacheTensor::v;
  }
  if (const auto& decode = json.at("decode"); !decode.is_null()) scope.decode = decode.get<bool>();
}

// NaN is null.
void to_json(nlohmann::json& json, const ProbeValue& value) {
  json = {value.measure, value.layer, value.head, value.tensor, value.step, value.value};
}

void from_json(const nlohmann::json& json, ProbeValue& value) {
  json.at(0).get_to(value.measure);
  json.at(1).get_to(value.layer);
  json.at(2).get_to(value.head);
  json.at(3).get_to(value.tensor);
  json.at(4).get_to(value.step);
  value.value = json.at(5).is_null() ? std::nan("") : json.at(5).get<double>();
}

}  // namespace kvc
