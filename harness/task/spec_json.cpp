// The canonical JSON of a task: sorted keys, no spaces, so that equal tasks have equal hashes.
#include <nlohmann/json.hpp>

#include "task/dataset.h"

namespace kvc {
namespace {

using Json = nlohmann::json;  // sorts its keys

const char* kind_name(ExtractStep::Kind kind) {
  switch (kind) {
    case ExtractStep::Kind::kCutBefore:
      return "cut_before";
    case ExtractStep::Kind::kBeforeFirst:
      return "before_first";
    case ExtractStep::Kind::kAfterFirst:
      return "after_first";
    case ExtractStep::Kind::kAfterLast:
      return "after_last";
    case ExtractStep::Kind::kDelete:
      return "delete";
    case ExtractStep::Kind::kRegex:
      return "regex";
    case ExtractStep::Kind::kStrip:
      return "strip";
    case ExtractStep::Kind::kLower:
      return "lower";
    case ExtractStep::Kind::kDropFinal:
      return "drop_final";
  }
  return "";
}

Json steps_json(const std::vector<ExtractStep>& steps) {
  Json result = Json::array();
  for (const auto& step : steps) {
    if (step.regex) {
      result.push_back({{"regex",
                         {{"pattern", step.regex->pattern()},
                          {"group", step.group},
                          {"which", step.last_match ? "last" : "first"}}}});
    } else {
      result.push_back({{kind_name(step.kind), step.text}});
    }
  }
  return result;
}

Json template_json(const Template& parts) {
  Json result = Json::array();
  for (const auto& part : parts) result.push_back({{part.is_variable ? "variable" : "text", part.text}});
  return result;
}

}  // namespace

std::string spec_json(const TaskSpec& spec, const Dataset& dataset) {
  Json json;
  json["name"] = spec.name;
  json["dataset_sha256"] = dataset.dataset_sha256;
  json["exemplars_sha256"] = dataset.exemplars_sha256;
  json["n_samples"] = dataset.samples.size();
  json["fields"] = spec.fields;
  json["gold"] = {{"from", spec.gold_field},
                  {"pattern", spec.gold_pattern ? Json(spec.gold_pattern->pattern()) : Json()}};
  json["template"] = template_json(spec.prompt);
  json["chat"] = spec.is_chat_turn ? "turn" : "never";
  json["max_new_tokens"] = spec.max_new_tokens;
  json["stop"] = spec.stop;
  json["metric"] = spec.metric;
  json["extractors"] = Json::array();
  for (const auto& extractor : spec.extractors) {
    const bool number = extractor.compare == Extractor::Compare::kNumber;
    json["extractors"].push_back({{"name", extractor.name},
                                  {"steps", steps_json(extractor.steps)},
                                  {"gold_steps", steps_json(extractor.gold_steps)},
                                  {"compare", number ? "number" : "exact"}});
  }
  return json.dump();
}

}  // namespace kvc
