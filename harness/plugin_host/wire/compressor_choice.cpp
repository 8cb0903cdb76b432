#include "wire/compressor_choice.h"

#include "text/json.h"
#include "text/optional_json.h"

namespace kvc {

NLOHMANN_JSON_SERIALIZE_ENUM(CompressorChoice::Kind, {{CompressorChoice::Kind::plugin, "plugin"},
                                                      {CompressorChoice::Kind::chain, "chain"},
                                                      {CompressorChoice::Kind::rules, "rules"},
                                                      {CompressorChoice::Kind::sinks, "sinks"},
                                                      {CompressorChoice::Kind::recent, "recent"},
                                                      {CompressorChoice::Kind::centered, "centered"},
                                                      {CompressorChoice::Kind::exact, "exact"}})

void to_json(nlohmann::json& json, const RuleScope& scope) {
  json = {{"layers", scope.layers}, {"tensor", nullptr}, {"decode", nullptr}, {"windowed", scope.windowed}};
  if (scope.tensor) json["tensor"] = to_string(*scope.tensor);
  if (scope.decode) json["decode"] = *scope.decode;
}

void from_json(const nlohmann::json& json, RuleScope& scope) {
  json.at("layers").get_to(scope.layers);
  json.at("windowed").get_to(scope.windowed);
  if (const auto& tensor = json.at("tensor"); !tensor.is_null()) {
    scope.tensor = tensor == "k" ? CacheTensor::k : CacheTensor::v;
  }
  if (const auto& decode = json.at("decode"); !decode.is_null()) scope.decode = decode.get<bool>();
}

KVC_DEFINE_JSON(CompressorChoice, plugin, options, where, kind, parts, scopes, block, n_exact, label, file, sha256,
                runtime, in_own_process, python)

}  // namespace kvc
