#include "wire/compressor_choice.h"

namespace kvc {

NLOHMANN_JSON_SERIALIZE_ENUM(CompressorChoice::Kind, {{CompressorChoice::Kind::plugin, "plugin"},
                                                      {CompressorChoice::Kind::chain, "chain"},
                                                      {CompressorChoice::Kind::rules, "rules"},
                                                      {CompressorChoice::Kind::exact, "exact"}})

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

void to_json(nlohmann::json& json, const CompressorChoice& choice) {
  json = {{"plugin", choice.plugin}, {"options", choice.options}, {"where", choice.where},
          {"kind", choice.kind},     {"parts", choice.parts},     {"scopes", choice.scopes},
          {"block", nullptr},        {"label", choice.label},     {"file", choice.file}};
  if (choice.block) json["block"] = *choice.block;
}

void from_json(const nlohmann::json& json, CompressorChoice& choice) {
  json.at("plugin").get_to(choice.plugin);
  choice.options = json.at("options");
  json.at("where").get_to(choice.where);
  json.at("kind").get_to(choice.kind);
  json.at("parts").get_to(choice.parts);
  json.at("scopes").get_to(choice.scopes);
  if (const auto& block = json.at("block"); !block.is_null()) choice.block = block.get<int64_t>();
  json.at("label").get_to(choice.label);
  json.at("file").get_to(choice.file);
}

}  // namespace kvc
