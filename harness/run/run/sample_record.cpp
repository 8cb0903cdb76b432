#include "run/sample_record.h"

#include <numeric>

#include "predictions/score_predictions.h"
#include "text/utf8.h"

namespace kvc {
namespace {

// Likelihoods as they are stored: what the worker measured, with the texts and lengths of the choices.
std::string likelihoods_json(const std::vector<std::string>& choices, const LikelihoodResult& result) {
  std::vector<ChoiceLikelihood> likelihoods;
  const auto sum = [](const auto& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto& measured = result.likelihoods.at(0).at(i);
    ChoiceLikelihood choice{choices[i],
                            sum(measured.log_likelihoods),
                            static_cast<int64_t>(measured.log_likelihoods.size()),
                            n_characters(choices[i]),
                            measured.is_greedy,
                            std::nullopt};
    if (result.likelihoods.size() > 1)
      choice.content_free_log_likelihood = sum(result.likelihoods[1].at(i).log_likelihoods);
    likelihoods.push_back(std::move(choice));
  }
  return choices_json(likelihoods);
}

std::vector<ScoreRow> choice_scores(const TaskSpec& task, const std::string& generation, const std::string& gold) {
  const auto choices = parse_choices_json(generation);
  const auto right = gold_choice(*task.choices, gold, choices.size(), task.name);
  std::vector<ScoreRow> scores;
  for (const auto& name : task.choices->scores) {
    const auto score = score_choices(name, choices, right);
    scores.push_back({name, score.answer, score.value});
  }
  return scores;
}

// The sums of each block of scored tokens.
std::vector<LikelihoodRow> blocks_of(const LikelihoodSpec& spec, const JobLikelihood& measured) {
  std::vector<LikelihoodRow> rows;
  const auto block = static_cast<size_t>(spec.block);
  for (size_t i = 0; i < measured.log_likelihoods.size(); ++i) {
    if (i % block == 0) rows.push_back({spec.prompt_tokens + static_cast<int64_t>(i), 0, 0, 0, 0});
    auto& row = rows.back();
    ++row.n_tokens;
    row.nll -= measured.log_likelihoods[i];
    row.kl += measured.kl.at(i);
    row.n_top1_same += measured.top1_same.at(i);
  }
  return rows;
}

TokenLikelihoods tokens_of(const LikelihoodSpec& spec, const JobLikelihood& measured,
                           const std::vector<std::string>& texts) {
  TokenLikelihoods tokens;
  tokens.position = spec.prompt_tokens;
  tokens.top1_same = measured.top1_same;
  tokens.texts = texts;
  for (size_t i = 0; i < measured.log_likelihoods.size(); ++i) {
    tokens.nll.push_back(static_cast<float>(-measured.log_likelihoods[i]));
    tokens.kl.push_back(static_cast<float>(measured.kl.at(i)));
    tokens.acceptance.push_back(static_cast<float>(measured.acceptance.at(i)));
  }
  return tokens;
}

void add_likelihood(const LikelihoodSpec& spec, const JobLikelihood& measured, const std::vector<std::string>& texts,
                    SampleRecord& record) {
  record.likelihood = blocks_of(spec, measured);
  record.tokens = tokens_of(spec, measured, texts);
  LikelihoodSums sums;
  for (const auto& row : record.likelihood) {
    sums.n_tokens += row.n_tokens;
    sums.nll += row.nll;
    sums.kl += row.kl;
    sums.n_top1_same += row.n_top1_same;
  }
  record.generation = likelihood_json(sums);
  record.token_ids_json = "[]";  // the text's own, which the model did not choose
}

std::vector<ScoreRow> window_scores(const std::string& generation) {
  std::vector<ScoreRow> scores;
  for (const auto& [name, value] : likelihood_scores(parse_likelihood_json(generation))) {
    scores.push_back({name, concat(value), value});
  }
  return scores;
}

}  // namespace

std::vector<ScoreRow> scores_of(const TaskSpec& task, const std::string& generation, const std::string& gold,
                                AnswerScorer& scorer) {
  if (task.choices) return choice_scores(task, generation, gold);
  if (task.likelihood) return window_scores(generation);
  const auto right = parse_gold(gold, has_structured_gold(task));
  std::vector<ScoreRow> scores;
  for (const auto& extractor : task.extractors) {
    check_gold(extractor, right);
    const auto answer = extract_answer(extractor, scored_text(task, extractor, generation));
    scores.push_back({extractor.name, answer, scorer.score(extractor, answer, right)});
  }
  return scores;
}

void add_buckets(const std::vector<std::string>& buckets, std::vector<ScoreRow>& scores) {
  const auto all = scores;
  for (const auto& label : buckets) {
    for (const auto& score : all) scores.push_back({score.extractor + "/" + label, score.answer, score.value});
  }
}

void add_result(const JobResult& result, const EncodedPrompt& prompt, const TaskSpec& task, const Sample& sample,
                AnswerScorer& scorer, SampleRecord& record) {
  const auto& caches = *result.measured();
  static_cast<Measurement&>(record) = caches.measured;
  record.n_prompt_tokens_before = prompt.n_tokens_before;
  record.bytes = caches.bytes;
  record.stages = caches.stages;
  if (const auto* scored = std::get_if<LikelihoodResult>(&result.answer)) {
    record.token_ids_json = nlohmann::json(prompt.scored.front().continuations.front()).dump();
    record.stop_reason = "scored";
    if (task.choices) {
      record.generation = likelihoods_json(prompt.choices, *scored);
      record.n_prompt_tokens = static_cast<int64_t>(prompt.ids.size());
      record.n_new_tokens = 0;
    }
    if (task.likelihood) add_likelihood(*task.likelihood, scored->likelihoods.at(0).at(0), prompt.tokens, record);
  } else {
    const auto& generated = std::get<GenerateResult>(result.answer);
    record.generation = generated.text;
    record.token_ids_json = nlohmann::json(generated.ids).dump();
    record.stop_reason = generated.stop_reason;
  }
  record.scores = scores_of(task, record.generation, record.gold, scorer);
  add_buckets(sample.buckets, record.scores);
}

}  // namespace kvc
