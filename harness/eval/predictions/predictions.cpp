#include "predictions/predictions.h"

#include <algorithm>
#include <map>

#include "predictions/choice_predictions.h"
#include "predictions/prediction_line.h"
#include "text/files.h"
#include "text/jsonl.h"
#include "text/notice.h"
#include "text/utf8.h"

namespace kvc {
namespace {

using Json = nlohmann::json;
using Line = PredictionLine;

enum class Form { kLongBench, kLmEval, kPlain };

Form form_of(const Line& line) {
  if (line.object.contains("pred")) return Form::kLongBench;
  if (line.object.contains("resps")) return Form::kLmEval;
  if (line.object.contains("generation")) return Form::kPlain;
  line.fail("no field 'pred' (LongBench), 'resps' (lm-eval) or 'generation' (plain lines)");
}

// The task's pattern takes its part of a gold where it matches: a gold may stand in the file raw or taken.
std::vector<std::string> matched(const TaskSpec& spec, std::vector<std::string> golds) {
  for (auto& gold : golds) gold = match_gold(spec, gold).value_or(gold);
  return golds;
}

std::vector<std::string> optional_texts(const Line& line, const std::string& field) {
  const auto* value = field.empty() ? nullptr : line.find(field);
  return value ? line.texts(*value, field) : std::vector<std::string>();
}

void read_response(const Line& line, const Json& value, const std::string& field, Prediction& prediction) {
  prediction.is_null = value.is_null();
  if (!prediction.is_null) prediction.generation = line.text(value, field);
}

Prediction read_longbench(const Line& line) {
  Prediction prediction;
  read_response(line, line.required("pred"), "pred", prediction);
  prediction.gold.answers = line.texts(line.required("answers"), "answers");
  prediction.gold.classes = optional_texts(line, "all_classes");
  return prediction;
}

Prediction read_plain(const TaskSpec& spec, const Line& line) {
  Prediction prediction;
  read_response(line, line.required("generation"), "generation", prediction);
  prediction.gold.answers = matched(spec, line.text_or_texts("gold"));
  prediction.gold.classes = optional_texts(line, line.find("classes") ? "classes" : spec.classes_field);
  return prediction;
}

// The gold stands in `doc` under the task's own field name, or in `target`.
Prediction read_lm_eval(const TaskSpec& spec, const Line& line) {
  Prediction prediction;
  const auto& responses = line.required("resps");
  const Json* response = &responses;
  while (response->is_array() && response->size() == 1) response = &(*response)[0];
  const bool is_one = response->is_null() || (responses.is_array() && responses.size() == 1 &&
                                              responses[0].is_array() && response == &responses[0][0]);
  if (!is_one) line.fail("field 'resps' is ", in_quotes(responses.dump()), ", expected one response, [[\"text\"]]");
  read_response(line, *response, "resps", prediction);
  const auto* doc = line.find("doc");
  const bool has_gold = doc && doc->is_object() && doc->contains(spec.gold_field);
  const Line gold{has_gold ? *doc : line.object, line.where};
  prediction.gold.answers = matched(spec, gold.text_or_texts(has_gold ? spec.gold_field : "target"));
  if (doc && doc->is_object()) prediction.gold.classes = optional_texts({*doc, line.where}, spec.classes_field);
  return prediction;
}

void tell_nulls(const std::vector<Prediction>& predictions, const std::filesystem::path& file) {
  const auto is_null = [](const Prediction& prediction) { return prediction.is_null; };
  const auto first = std::find_if(predictions.begin(), predictions.end(), is_null);
  if (first == predictions.end()) return;
  const auto n = std::count_if(first, predictions.end(), is_null);
  notice(concat(file.string(), ": ", n, " of ", predictions.size(), n == 1 ? " responses is" : " responses are",
                " null, scored 0 as an empty answer; first: line ", first->line));
}

// lm-eval writes a response once per filter. Two runs in one file repeat filters, also where their responses are equal.
class FilterLines {
 public:
  // Whether the line is another filter's of a response that was read.
  bool is_read(const Line& line) {
    Json response = {{"doc_id", line.required("doc_id")}};
    for (const char* field : {"doc", "target", "arguments", "resps"}) {
      if (const auto* value = line.find(field)) response[field] = *value;
    }
    const auto* filter = line.find("filter");
    auto& lines = responses_[sha256_hex(response.dump(-1, ' ', false, Json::error_handler_t::replace))];
    const auto n_of_filter = ++lines.n_of_filter[filter ? filter->dump() : ""];
    if (n_of_filter <= lines.n_read) return true;
    ++lines.n_read;
    return false;
  }

 private:
  struct Lines {
    int64_t n_read = 0;
    std::map<std::string, int64_t> n_of_filter;
  };
  std::map<std::string, Lines> responses_;  // by hash
};

}  // namespace

PredictionFile read_predictions(const TaskSpec& spec, const std::filesystem::path& file) {
  PredictionFile read;
  auto& predictions = read.samples;
  std::optional<Form> form;
  FilterLines filters;
  read_jsonl(file, [&](int64_t number, const Json& object) {
    const Line line{object, concat(file.string(), ":", number, ":1")};
    if (!object.is_object()) line.fail("a line is ", object.type_name(), ", expected an object");
    if (!form) form = form_of(line);
    if (spec.choices && form != Form::kLmEval) {
      line.fail("the task chooses by likelihoods: expected lm-eval's samples of log-likelihoods, with 'resps'");
    }
    if (form == Form::kLmEval && filters.is_read(line)) {
      ++read.n_other_filters;
      return;
    }
    predictions.push_back(form == Form::kLongBench ? read_longbench(line)
                          : spec.choices           ? read_choice_line(spec, line)
                          : form == Form::kLmEval  ? read_lm_eval(spec, line)
                                                   : read_plain(spec, line));
    predictions.back().line = number;
  });
  KVC_CHECK(!predictions.empty(), file.string(), ":1:1: error: the file holds no predictions");
  tell_nulls(predictions, file);
  if (form == Form::kLongBench) {
    for (auto& prediction : predictions) prediction.gold.classes = predictions.back().gold.classes;
  }
  return read;
}

}  // namespace kvc
