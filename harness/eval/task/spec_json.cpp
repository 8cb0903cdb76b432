// The canonical JSON of a task, and apart from it of its scoring: sorted keys, no spaces, so that equal tasks have
// equal hashes.
#include <nlohmann/json.hpp>

#include "task/dataset.h"

namespace kvc {
namespace {

using Json = nlohmann::json;  // sorts its keys

Json steps_json(const std::vector<ExtractStep>& steps) {
  Json result = Json::array();
  for (const auto& step : steps) {
    Json argument = step.text;
    if (step.kind == ExtractStep::Kind::kReplace) {
      argument = {{"pattern", step.regex->pattern()}, {"by", step.text}};
    } else if (step.regex) {
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

Json field_json(const FieldSpec& field) {
  Json json = {{"from", field.from}};
  if (field.pattern) json["pattern"] = field.pattern->pattern();
  if (field.join) json["join"] = *field.join;
  return json;
}

// The files' content is hashed; which of their items are used is said here.
Json data_json(const DataSpec& data) {
  Json json = {{"format", static_cast<int>(data.format)},
               {"columns", data.columns},
               {"latin1", data.encoding == TextEncoding::kLatin1}};
  for (const auto& part : data.parts) json["parts"].push_back({part.begin, part.end.value_or(-1), part.set});
  return json;
}

Json choices_json(const ChoiceSpec& choices) {
  Json json = {{"golds", choices.golds},
               {"before", choices.before},
               {"last_token", choices.last_token},
               {"after_exemplars", choices.after_exemplars}};
  for (const auto& text : choices.texts) json["texts"].push_back(template_json(text));
  if (choices.from) json["from"] = field_json(*choices.from);
  if (choices.content_free) json["content_free"] = *choices.content_free;
  return json;
}

Json bucket_json(const BucketSpec& bucket) {
  Json json = {{"by", bucket.by}, {"rest", bucket.rest}};
  for (const auto& bound : bucket.bounds) json["below"].push_back({bound.label, bound.below});
  return json;
}

}  // namespace

std::string spec_json(const TaskSpec& spec, const Dataset& dataset) {
  Json json;
  json["name"] = spec.name;
  json["dataset_sha256"] = dataset.dataset_sha256;
  json["exemplars_sha256"] = dataset.exemplars_sha256;
  json["n_samples"] = dataset.n_samples;
  json["fields"] = Json::object();
  for (const auto& [name, field] : spec.fields) json["fields"][name] = field_json(field);
  if (!spec.gold_field.empty()) json["gold"] = field_json({spec.gold_field, spec.gold_pattern, std::nullopt});
  if (spec.has_gold_list) json["gold"]["list"] = true;
  if (!spec.classes_field.empty()) json["gold"]["classes"] = spec.classes_field;
  json["data"] = data_json(spec.data);
  json["template"] = template_json(dataset.prompt);
  if (!spec.answer_prefix.empty()) json["answer_prefix"] = template_json(spec.answer_prefix);
  json["chat"] = spec.is_chat_turn ? "turn" : "never";
  json["max_new_tokens"] = spec.max_new_tokens;
  json["min_new_tokens"] = spec.min_new_tokens;
  json["stop"] = spec.stop;
  json["stop_tokens"] = spec.stop_tokens;
  json["limit"] = {{"side", static_cast<int>(spec.limit.side)}, {"max_tokens", spec.limit.max_tokens.value_or(0)}};
  if (spec.choices) json["choices"] = choices_json(*spec.choices);
  if (const auto& l = spec.likelihood) {
    json["likelihood"] = {{"prompt_tokens", l->prompt_tokens}, {"tokens", l->tokens}, {"block", l->block}};
    if (l->stride > 0) json["likelihood"].update({{"offset", l->offset}, {"stride", l->stride}});
  }
  for (const auto& bucket : spec.buckets) json["buckets"].push_back(bucket_json(bucket));
  return json.dump();
}

std::string scoring_json(const TaskSpec& spec) {
  Json json = {{"metric", spec.metric}, {"extractors", Json::array()}};
  if (spec.choices) json["choices"]["scores"] = spec.choices->scores;
  for (const auto& extractor : spec.extractors) {
    Json entry = {{"name", extractor.name},
                  {"steps", steps_json(extractor.steps)},
                  {"gold_steps", steps_json(extractor.gold_steps)},
                  {"compare", extractor.scorer->name}};
    if (extractor.reads_stops) entry["reads_stops"] = true;
    if (extractor.scorer->revision > 1) entry["revision"] = extractor.scorer->revision;
    json["extractors"].push_back(std::move(entry));
  }
  return json.dump();
}

}  // namespace kvc
