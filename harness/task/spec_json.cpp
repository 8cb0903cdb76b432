// The canonical JSON of a task: sorted keys, no spaces, so that equal tasks have equal hashes.
#include <nlohmann/json.hpp>

#include "task/dataset.h"

namespace kvc {
namespace {

using Json = nlohmann::json;  // sorts its keys

Json steps_json(const std::vector<ExtractStep>& steps) {
  Json result = Json::array();
  for (const auto& step : steps) {
    Json argument = step.text;
    if (step.regex) {
      argument = {
          {"pattern", step.regex->pattern()}, {"group", step.group}, {"which", step.last_match ? "last" : "first"}};
    } else if (!step.texts.empty()) {
      argument = step.texts;
    } else if (!step.alternatives.empty()) {
      argument = Json::array();
      for (const auto& alternative : step.alternatives) argument.push_back(steps_json(alternative));
    }
    result.push_back({{step_name(step.kind), argument}});
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
  if (spec.has_gold_list) json["gold"]["list"] = true;
  if (!spec.classes_field.empty()) json["gold"]["classes"] = spec.classes_field;
  json["template"] = template_json(spec.prompt);
  json["chat"] = spec.is_chat_turn ? "turn" : "never";
  json["max_new_tokens"] = spec.max_new_tokens;
  json["stop"] = spec.stop;
  json["metric"] = spec.metric;
  json["extractors"] = Json::array();
  for (const auto& extractor : spec.extractors) {
    json["extractors"].push_back({{"name", extractor.name},
                                  {"steps", steps_json(extractor.steps)},
                                  {"gold_steps", steps_json(extractor.gold_steps)},
                                  {"compare", extractor.scorer->name}});
  }
  return json.dump();
}

}  // namespace kvc
