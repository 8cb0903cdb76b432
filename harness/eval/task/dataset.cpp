#include "task/dataset.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "data/records.h"
#include "kvc/check.h"
#include "text/json.h"
#include "text/utf8.h"

namespace kvc {
namespace {

int64_t bucket_value(const BucketSpec& spec, const Record& record) {
  const auto found = record.object.find(spec.by);
  KVC_CHECK(found != record.object.end() && found->is_number_integer(), record.where, ":1: error: field '", spec.by,
            "' is ", found == record.object.end() ? "missing" : found->type_name(), ", expected an integer");
  return found->get<int64_t>();
}

std::string bucket_label(const BucketSpec& spec, const Record& record) {
  const int64_t value = bucket_value(spec, record);
  if (spec.bounds.empty()) return concat(spec.by, " ", value);
  for (const auto& bound : spec.bounds) {
    if (value < bound.below) return bound.label;
  }
  return spec.rest;
}

FieldSpec gold_field(const TaskSpec& spec) { return {spec.gold_field, spec.gold_pattern, std::nullopt}; }

Gold read_gold(const TaskSpec& spec, const Record& record) {
  Gold gold;
  if (spec.gold_field.empty()) return gold;
  const auto field = gold_field(spec);
  gold.answers = spec.has_gold_list ? field_list(field, record) : std::vector{field_text(field, record)};
  if (!spec.classes_field.empty()) gold.classes = field_list({spec.classes_field, std::nullopt, std::nullopt}, record);
  return gold;
}

Sample read_sample(const TaskSpec& spec, const Record& record, int64_t id) {
  KVC_CHECK(record.object.is_object(), record.where, ":1: error: a line is ", record.object.type_name(),
            ", expected an object");
  const auto gold = read_gold(spec, record);
  Sample sample;
  sample.id = id;
  if (!gold.answers.empty()) sample.gold = gold_text(gold, has_structured_gold(spec));
  for (const auto& [variable, field] : spec.fields) sample.fields[variable] = field_text(field, record);
  for (const auto& extractor : spec.extractors) {
    for (const auto& answer : gold.answers) {
      KVC_CHECK(gold_answer(extractor, answer), record.where, ":1: error: extractor '", extractor.name,
                "' finds no answer in the gold ", in_quotes(answer));
    }
  }
  if (spec.choices) {
    sample.choices = choice_texts(*spec.choices, sample.fields, record);
    sample.gold_choice = gold_choice(*spec.choices, sample.gold, sample.choices.size(), record.where);
  }
  for (const auto& bucket : spec.buckets) sample.buckets.push_back(bucket_label(bucket, record));
  return sample;
}

Template read_template_file(const TaskSpec& spec, const std::filesystem::path& path) {
  const auto json = read_json_text(path);
  try {
    return parse_prompt_template(spec, json.at(nlohmann::json::json_pointer(spec.template_pointer)).get<std::string>());
  } catch (const nlohmann::json::exception&) {
    throw Error(concat(path.string(), ":1:1: error: expected JSON with a text at ", spec.template_pointer));
  } catch (const Error& e) {
    throw Error(concat(path.string(), ": ", spec.template_pointer, ": ", e.what()));
  }
}

TemplatePlace place_question(const TaskSpec& spec, const Template& prompt) {
  try {
    return find_in_template(prompt, spec.question);
  } catch (const Error& e) {
    throw Error(concat(spec.yaml_file.string(), ": prompt.question: ", e.what()));
  }
}

template <class FieldText>
Prompt render(const TaskSpec& spec, const Dataset& dataset, const FieldText& field_text) {
  Prompt prompt;
  bool is_shared = true;
  for (size_t i = 0; i < dataset.prompt.size(); ++i) {
    const auto& part = dataset.prompt[i];
    const auto& question = dataset.question;
    if (question && question->part == i) prompt.question_begin = prompt.text.size() + question->n_bytes;
    const bool is_exemplars = part.is_variable && part.text == "exemplars";
    const auto& text = !part.is_variable ? part.text : is_exemplars ? dataset.exemplars : field_text(part.text);
    is_shared = is_shared && (!part.is_variable || is_exemplars);
    if (is_shared) prompt.shared_prefix += text;
    prompt.text += text;
    prompt.parts.push_back({part.is_variable ? part.text : "", text});
  }
  for (const auto& part : spec.answer_prefix)
    prompt.answer_prefix += part.is_variable ? field_text(part.text) : part.text;
  if (!prompt.answer_prefix.empty()) prompt.parts.push_back({"", prompt.answer_prefix});
  return prompt;
}

// Tokens that a prompt made to a length may have; 0 where its length is not in tokens.
int64_t made_prompt_tokens(const TaskSpec& spec, const PromptGauge& gauge) {
  const auto& made = *spec.data.made;
  if (!made.tokens) return 0;
  KVC_CHECK(gauge.n_tokens, made.where, ": error: the prompts are made of ", *made.tokens,
            " tokens, and no model says what a token is");
  KVC_CHECK(*made.tokens <= gauge.context, made.where, ": error: data.made.tokens is ", *made.tokens,
            ", and the model's context has ", gauge.context);
  const int64_t n = *made.tokens - spec.max_new_tokens;
  KVC_CHECK(n > 0, made.where, ": error: data.made.tokens is ", *made.tokens, ", and max_new_tokens ",
            spec.max_new_tokens);
  KVC_CHECK(!gauge.max_prompt_tokens || n <= *gauge.max_prompt_tokens, made.where, ": error: prompts of ", n,
            " tokens are made, and max_prompt_tokens is ", gauge.max_prompt_tokens.value_or(0));
  return n;
}

void add_made(const TaskSpec& spec, const std::filesystem::path& data_dir, const PromptGauge& gauge,
              const std::optional<int64_t>& n_made, Dataset& dataset) {
  const auto& made = *spec.data.made;
  const MakerPlace place{data_dir, made_prompt_tokens(spec, gauge), gauge.n_tokens};
  const auto sample_of = [&](const nlohmann::json& question, int64_t id) {
    return read_sample(spec, {question, concat("made question ", id)}, id);
  };
  const auto questions = make_questions(made, place, n_made.value_or(made.n_samples), [&](const auto& question) {
    return gauge.n_prompt_tokens(render_prompt(spec, dataset, sample_of(question, 0)));
  });
  for (const auto& question : questions.items) {
    dataset.samples.push_back(sample_of(question, static_cast<int64_t>(dataset.samples.size())));
  }
  dataset.n_samples = questions.n_all;
  dataset.dataset_sha256 = questions.sha256;
}

}  // namespace

Dataset load_dataset(const TaskSpec& spec, const std::filesystem::path& data_dir, const PromptGauge& gauge,
                     const std::optional<int64_t>& n_made) {
  Dataset dataset;
  dataset.prompt = spec.template_file ? read_template_file(spec, locate(*spec.template_file, data_dir)) : spec.prompt;
  if (!spec.question.empty()) dataset.question = place_question(spec, dataset.prompt);
  if (spec.exemplars) {
    const auto* choices = spec.choices ? &*spec.choices : nullptr;
    auto exemplars = load_exemplars(*spec.exemplars, spec.fields, choices, gold_field(spec), data_dir);
    dataset.exemplars = std::move(exemplars.text);
    dataset.exemplars_sha256 = std::move(exemplars.sha256);
  }
  if (spec.data.made) {
    add_made(spec, data_dir, gauge, n_made, dataset);
    return dataset;
  }
  const auto records = read_records(spec.data, data_dir);
  for (const auto& record : records.items) {
    dataset.samples.push_back(read_sample(spec, record, static_cast<int64_t>(dataset.samples.size())));
  }
  dataset.n_samples = static_cast<int64_t>(dataset.samples.size());
  dataset.dataset_sha256 = records.sha256;
  return dataset;
}

int64_t count_samples(const TaskSpec& spec, const std::filesystem::path& data_dir) {
  return spec.data.made ? count_questions(*spec.data.made, data_dir) : load_dataset(spec, data_dir).n_samples;
}

Prompt render_prompt(const TaskSpec& spec, const Dataset& dataset, const Sample& sample) {
  return render(spec, dataset, [&](const std::string& name) -> const std::string& { return sample.fields.at(name); });
}

Prompt render_content_free(const TaskSpec& spec, const Dataset& dataset, const std::string& text) {
  return render(spec, dataset, [&](const std::string&) -> const std::string& { return text; });
}

namespace {

// Samples of one combination of buckets.
struct Stratum {
  std::vector<std::string> buckets;
  std::vector<size_t> samples;
  size_t n_taken = 0;
  uint64_t draw = 0;  // of those that are as wanted the lowest is next; the file's first is everyone's first
};

std::vector<Stratum> strata_of(const std::vector<Sample>& samples) {
  std::vector<Stratum> strata;
  std::map<std::vector<std::string>, size_t> places;
  std::mt19937_64 random(0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto [place, is_new] = places.emplace(samples[i].buckets, strata.size());
    if (is_new) strata.push_back({samples[i].buckets, {}, 0, i == 0 ? 0 : random()});
    strata[place->second].samples.push_back(i);
  }
  return strata;
}

}  // namespace

void keep_samples(Dataset& dataset, size_t n) {
  if (n >= dataset.samples.size()) return;
  auto strata = strata_of(dataset.samples);
  std::map<std::pair<size_t, std::string>, size_t> n_of_bucket;  // taken, by place among a sample's buckets
  const auto wanted = [&](const Stratum& stratum) {              // the least is next
    size_t n_alike = 0;
    for (size_t i = 0; i < stratum.buckets.size(); ++i) n_alike += n_of_bucket[{i, stratum.buckets[i]}];
    return std::tuple(stratum.n_taken == stratum.samples.size(), stratum.n_taken, n_alike, stratum.draw);
  };
  std::vector<size_t> kept;
  while (kept.size() < n) {
    auto& next = *std::min_element(strata.begin(), strata.end(),
                                   [&](const auto& a, const auto& b) { return wanted(a) < wanted(b); });
    kept.push_back(next.samples[next.n_taken++]);
    for (size_t i = 0; i < next.buckets.size(); ++i) ++n_of_bucket[{i, next.buckets[i]}];
  }
  std::sort(kept.begin(), kept.end());
  std::vector<Sample> samples;
  for (const size_t i : kept) samples.push_back(std::move(dataset.samples[i]));
  dataset.samples = std::move(samples);
}

}  // namespace kvc
