#include "task/choices.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "data/records.h"
#include "kvc/check.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

void read_texts(const YamlValue& value, const std::vector<std::string>& fields, ChoiceSpec& spec) {
  for (const auto& item : value.sequence()) {
    auto parts = parse_template(item.string());
    for (const auto& part : parts) {
      if (part.is_variable && std::find(fields.begin(), fields.end(), part.text) == fields.end()) {
        item.fail(unknown_name("template variable", part.text, fields));
      }
    }
    spec.texts.push_back(std::move(parts));
  }
  if (spec.texts.empty()) value.fail(value.name(), " is empty, expected at least one choice");
}

// The first of the largest.
template <class Value>
size_t best(const std::vector<ChoiceLikelihood>& choices, Value value) {
  size_t best = 0;
  for (size_t i = 1; i < choices.size(); ++i) {
    if (value(choices[i]) > value(choices[best])) best = i;
  }
  return best;
}

double per_token(double log_likelihood, const ChoiceLikelihood& choice) {
  return log_likelihood / static_cast<double>(choice.n_tokens);
}

double calibrated(const ChoiceLikelihood& choice) {
  KVC_CHECK(choice.content_free_log_likelihood, "score mean_nll_calibrated: the choice ", in_quotes(choice.text),
            " has no content-free likelihood");
  return per_token(choice.log_likelihood - *choice.content_free_log_likelihood, choice);
}

}  // namespace

const std::vector<std::string>& choice_scores() {
  static const std::vector<std::string> kScores = {"acc",    "acc_norm",      "mean_nll", "mean_nll_calibrated",
                                                   "greedy", "log_likelihood"};
  return kScores;
}

ChoiceSpec read_choice_spec(const YamlValue& value, const std::vector<std::string>& fields) {
  auto map = value.map();
  ChoiceSpec spec;
  spec.last_token = map.optional_boolean("last_token", false);
  const auto texts = map.optional("texts"), from = map.optional("from");
  const int n_forms = spec.last_token + texts.has_value() + from.has_value();
  if (n_forms != 1) value.fail(value.name(), " names ", n_forms, " of texts, from and last_token, expected one");
  if (texts) read_texts(*texts, fields, spec);
  if (from) spec.from = read_field_spec(*from);
  spec.before = map.optional_string("before", "");
  spec.golds = map.optional_strings("golds");
  if (const auto text = map.optional("content_free")) spec.content_free = text->string();
  spec.after_exemplars = map.optional_boolean("after_exemplars", false);
  for (const auto& item : map.required("scores").sequence()) {
    spec.scores.push_back(item.choice(choice_scores()));
    if (spec.scores.back() == "mean_nll_calibrated" && !spec.content_free) {
      item.fail("score mean_nll_calibrated needs content_free");
    }
  }
  if (spec.scores.empty()) map.required("scores").fail("choices.scores is empty, expected at least one");
  map.reject_unknown();
  return spec;
}

std::vector<std::string> choice_texts(const ChoiceSpec& spec, const std::map<std::string, std::string>& fields,
                                      const Record& record) {
  std::vector<std::string> texts;
  if (spec.from) {
    for (const auto& text : field_texts(*spec.from, record)) texts.push_back(spec.before + text);
    KVC_CHECK(texts.size() >= 2, record.where, ":1: error: field '", spec.from->from, "' holds ", texts.size(),
              " choices, expected at least two");
  }
  for (const auto& parts : spec.texts) {
    std::string text;
    for (const auto& part : parts) text += part.is_variable ? fields.at(part.text) : part.text;
    texts.push_back(std::move(text));
  }
  for (const auto& text : texts) {
    KVC_CHECK(!strip(text).empty(), record.where, ":1: error: choice ", &text - texts.data(), " is empty");
  }
  return texts;
}

int64_t gold_choice(const ChoiceSpec& spec, const std::string& gold, size_t n, const std::string& where) {
  if (n <= 1) return 0;
  std::vector<std::string> golds = spec.golds;
  for (size_t i = 0; spec.golds.empty() && i < n; ++i) golds.push_back(std::to_string(i));
  const auto found = std::find(golds.begin(), golds.end(), gold);
  const auto index = found - golds.begin();
  KVC_CHECK(found != golds.end() && static_cast<size_t>(index) < n, where, ":1: error: the gold is ", in_quotes(gold),
            ", expected one of ", join(golds), ", and there are ", n, " choices");
  return index;
}

int64_t n_characters(const std::string& choice) {
  return static_cast<int64_t>(to_code_points(choice).size()) - (choice.size() > 1 && choice.starts_with(' '));
}

std::string choices_json(const std::vector<ChoiceLikelihood>& choices) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& choice : choices) {
    nlohmann::ordered_json json = {{"text", choice.text},
                                   {"log_likelihood", choice.log_likelihood},
                                   {"n_tokens", choice.n_tokens},
                                   {"n_characters", choice.n_characters},
                                   {"is_greedy", choice.is_greedy}};
    if (choice.content_free_log_likelihood) {
      json["content_free_log_likelihood"] = *choice.content_free_log_likelihood;
    }
    list.push_back(std::move(json));
  }
  return list.dump();
}

std::vector<ChoiceLikelihood> parse_choices_json(const std::string& text) {
  std::vector<ChoiceLikelihood> choices;
  try {
    for (const auto& json : Json::parse(text)) {
      ChoiceLikelihood choice{json.at("text").get<std::string>(), json.at("log_likelihood").get<double>(),
                              json.at("n_tokens").get<int64_t>(), json.at("n_characters").get<int64_t>(),
                              json.at("is_greedy").get<bool>(),   std::nullopt};
      if (json.contains("content_free_log_likelihood")) {
        choice.content_free_log_likelihood = json["content_free_log_likelihood"].get<double>();
      }
      choices.push_back(std::move(choice));
    }
  } catch (const Json::exception&) {
    throw Error(concat("expected a list of choices with their likelihoods, found ", in_quotes(text)));
  }
  KVC_CHECK(!choices.empty(), "expected a list of choices with their likelihoods, found ", in_quotes(text));
  return choices;
}

ChoiceScore score_choices(const std::string& score, const std::vector<ChoiceLikelihood>& choices, int64_t gold) {
  KVC_CHECK(gold >= 0 && static_cast<size_t>(gold) < choices.size(), "gold choice ", gold, " of ", choices.size());
  const auto& right = choices[static_cast<size_t>(gold)];
  if (score == "greedy") return {right.is_greedy ? right.text : "", right.is_greedy ? 1.0 : 0.0};
  if (score == "log_likelihood") {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", right.log_likelihood);
    return {text, right.log_likelihood};
  }
  size_t chosen = 0;
  if (score == "acc") {
    chosen = best(choices, [](const auto& c) { return c.log_likelihood; });
  } else if (score == "acc_norm") {
    chosen = best(choices, [](const auto& c) { return c.log_likelihood / static_cast<double>(c.n_characters); });
  } else if (score == "mean_nll") {
    chosen = best(choices, [](const auto& c) { return per_token(c.log_likelihood, c); });
  } else if (score == "mean_nll_calibrated") {
    chosen = best(choices, calibrated);
  } else {
    throw Error(unknown_name("score", score, choice_scores()));
  }
  return {choices[chosen].text, static_cast<int64_t>(chosen) == gold ? 1.0 : 0.0};
}

}  // namespace kvc
