#include "predictions/choice_predictions.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && !std::isnan(number) ? std::optional(number) : std::nullopt;
}

std::optional<bool> truth_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == "True") return true;
  if (value == "False") return false;
  return std::nullopt;
}

// No response, or a log-likelihood that is no number, in any of the lists that may contain it.
bool is_null(const Json& response) {
  const Json* value = &response;
  while (value->is_array() && !value->empty()) value = &(*value)[0];
  return value->is_null() || *value == "nan";
}

// [[log-likelihood, is greedy]], the inner list alone as well.
ChoiceLikelihood likelihood_of(const Json& response, size_t i, const PredictionLine& line) {
  const bool is_nested = response.is_array() && response.size() == 1 && response[0].is_array();
  const auto& pair = is_nested ? response[0] : response;
  const bool is_pair = pair.is_array() && pair.size() == 2;
  const auto number = is_pair ? number_of(pair[0]) : std::nullopt;
  const auto truth = is_pair ? truth_of(pair[1]) : std::nullopt;
  if (!number || !truth) {
    line.fail("field 'resps' has ", in_quotes(response.dump()), " of choice ", i,
              ", expected [[log-likelihood, is greedy]], as [[\"-1.25\", \"False\"]]");
  }
  ChoiceLikelihood choice;
  choice.log_likelihood = *number;
  choice.is_greedy = *truth;
  return choice;
}

std::string continuation(const PredictionLine& line, size_t i) {
  const auto& arguments = line.required("arguments");
  const auto* of_choice =
      arguments.is_object() ? PredictionLine{arguments, line.where}.find(concat("gen_args_", i)) : nullptr;
  const auto* text =
      of_choice && of_choice->is_object() ? PredictionLine{*of_choice, line.where}.find("arg_1") : nullptr;
  if (!text) line.fail("field 'arguments' has no gen_args_", i, ".arg_1, the text of choice ", i);
  return line.text(*text, "arg_1");
}

int64_t target_of(const PredictionLine& line, const std::vector<ChoiceLikelihood>& choices) {
  const auto& target = line.required("target");
  const auto text = target.is_string() ? target.get<std::string>() : target.dump();
  if (choices.size() == 1) return 0;  // the target's own likelihood
  const bool is_number = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && std::stoull(text) < choices.size()) return std::stoll(text);
  const auto is_it = [&](const ChoiceLikelihood& choice) { return strip(choice.text) == strip(text); };
  const auto found = std::find_if(choices.begin(), choices.end(), is_it);
  if (is_number || found == choices.end()) {
    line.fail("field 'target' is ", in_quotes(text), ", expected the text of a choice, or its number from 0 to ",
              choices.size() - 1);
  }
  return found - choices.begin();
}

std::map<std::string, double> stated_scores(const PredictionLine& line, size_t n_choices) {
  std::map<std::string, double> stated;
  for (const char* name : {"acc", "acc_norm"}) {
    const auto* value = line.find(name);
    if (value && value->is_number()) stated[n_choices == 1 ? "greedy" : name] = value->get<double>();
  }
  return stated;
}

}  // namespace

Prediction read_choice_line(const TaskSpec& spec, const PredictionLine& line) {
  const auto& responses = line.required("resps");
  if (!responses.is_array()) line.fail("field 'resps' is ", responses.type_name(), ", expected one entry per choice");
  if (line.find("acc_mutual_info")) line.fail("acc_mutual_info is not supported: half of 'resps' are unconditional");
  const size_t n_texts = spec.choices->last_token ? 1 : spec.choices->texts.size();
  if (n_texts > 0 ? responses.size() != n_texts : responses.size() < 2) {
    line.fail("field 'resps' has ", responses.size(), " entries, the task ", n_texts > 0 ? "" : "at least ",
              n_texts > 0 ? n_texts : 2, n_texts == 1 ? " choice" : " choices");
  }
  Prediction prediction;
  for (size_t i = 0; i < responses.size(); ++i) {
    prediction.is_null = prediction.is_null || is_null(responses[i]);
    auto choice = is_null(responses[i]) ? ChoiceLikelihood{} : likelihood_of(responses[i], i, line);
    choice.text = continuation(line, i);
    choice.n_characters = n_characters(choice.text);
    prediction.choices.push_back(std::move(choice));
  }
  prediction.gold_choice = target_of(line, prediction.choices);
  prediction.stated = stated_scores(line, prediction.choices.size());
  return prediction;
}

std::vector<std::string> scores_of_likelihoods(const ChoiceSpec& spec) {
  std::vector<std::string> names;
  for (const auto& name : spec.scores) {
    if (name == "acc" || name == "acc_norm" || name == "greedy") names.push_back(name);
  }
  return names;
}

PredictionScores score_choice_predictions(const TaskSpec& spec, const std::string& score,
                                          const std::vector<Prediction>& predictions,
                                          const std::filesystem::path& file) {
  PredictionScores scores{spec.name, score, spec.metric, {}};
  for (const auto& prediction : predictions) {
    if (prediction.is_null) {
      ++scores.n_no_answer;
      scores.samples.push_back({prediction.line, std::nullopt, 0});
      continue;
    }
    auto [answer, value] = score_choices(score, prediction.choices, prediction.gold_choice);
    const auto stated = prediction.stated.find(score);
    KVC_CHECK(stated == prediction.stated.end() || stated->second == value, file.string(), ":", prediction.line,
              ":1: error: the log-likelihoods give ", score, " ", value, ", but the line says ", stated->second,
              ": it was scored differently");
    scores.sum += value;
    scores.samples.push_back({prediction.line, std::move(answer), value});
  }
  return scores;
}

}  // namespace kvc
