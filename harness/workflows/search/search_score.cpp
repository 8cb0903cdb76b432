#include "search/search_score.h"

#include <algorithm>
#include <utility>

#include "checkpoint/model_config.h"
#include "experiment/sample_job.h"
#include "prompt/encode_prompt.h"
#include "text/message.h"
#include "tokenizer/tokenizer.h"

namespace kvc {

std::vector<SearchSample> search_samples(const Grid& grid, int64_t n_of_each_task) {
  std::vector<SearchSample> samples;
  for (const auto& task : grid.tasks) {
    const auto& all = task.data.samples;
    const size_t n = std::min(all.size(), static_cast<size_t>(n_of_each_task));
    for (size_t i = all.size() - n; i < all.size(); ++i) samples.push_back({&task, &all[i]});
  }
  KVC_CHECK(!samples.empty(), "search: the experiment's tasks have no samples");
  return samples;
}

namespace {

// Its prompts share nothing that would pay.
WorkerSetUp set_up_of(const Grid& grid) {
  auto set_up = grid.worker;
  set_up.share_prefix = false;
  set_up.compressors.clear();
  set_up.references.clear();
  return set_up;
}

CompressorChoice exact() {
  CompressorChoice compressor;
  compressor.kind = CompressorChoice::Kind::exact;
  return compressor;
}

// A plugin can write on the worker's socket, too.
template <class Result>
const Result& kind(const JobResult& result) {
  const auto* found = std::get_if<Result>(&result.answer);
  KVC_CHECK(found, "search: the worker's answer is not of the kind '", Result::kName, "' that was asked for");
  return *found;
}

}  // namespace

PlanScorer::PlanScorer(const Grid& grid, const std::vector<SearchSample>& samples, const Experiment& experiment,
                       std::function<void(int64_t n_compressors)> on_sample)
    : shape_(load_model_config(grid.worker.model_path).shape()),
      on_sample_(std::move(on_sample)),
      process_(nlohmann::json(set_up_of(grid))) {
  KVC_CHECK(!experiment.question_after, "search: question is ", kAfterCompression, ", expected in_prompt");
  expect_ready();
  use({exact()});
  const auto tokenizer = Tokenizer::load(grid.worker.model_path);
  for (const auto& sample : samples) {
    const auto& task = *sample.task;
    const auto& spec = task.spec;
    KVC_CHECK(spec.kind == TaskSpec::Kind::kGenerate, "search: ", spec.name,
              " scores given texts; expected tasks whose answers the model writes");
    Prepared prepared{sample, sequence_key(experiment, *sample.sample), {}, {}};
    auto& asked = prepared.asked;
    asked.stop = stop_rule(spec, tokenizer);
    asked.prompt.prompt_ids =
        encode_prompt(spec, task.data, *sample.sample, tokenizer,
                      {&task.chat, task.system_message, grid.context, experiment.max_prompt_tokens})
            .ids;
    auto greedily = asked;
    greedily.greedy = true;
    const auto answer = run(prepared.sequence_key, std::move(greedily)).front();
    KVC_CHECK(answer.error().empty(), "search: ", spec.name, ", sample ", sample.sample->id, ": ", answer.error());
    prepared.answer_ids = kind<GenerateResult>(answer).ids;
    samples_.push_back(std::move(prepared));
  }
}

nlohmann::json PlanScorer::next() { return process_.next("search: the worker"); }

void PlanScorer::expect_ready() {
  auto answer = next();
  while (answer.contains("more") || answer.contains("at")) answer = next();
  KVC_CHECK(answer["ready"].get<bool>(), answer.value("error", "search: the worker did not start"));
}

void PlanScorer::use(const std::vector<CompressorChoice>& compressors) {
  process_.send(nlohmann::json(OtherCompressors{compressors}));
  n_in_use_ = compressors.size();
  expect_ready();
}

std::vector<JobResult> PlanScorer::run(uint64_t sequence_key, decltype(Job::asked) asked) {
  Job job{.sequence_key = sequence_key, .asked = std::move(asked)};
  for (size_t i = 0; i < n_in_use_; ++i) job.compressors.push_back(static_cast<int>(i));
  process_.send(nlohmann::json(job));
  std::vector<JobResult> results(n_in_use_);
  while (true) {
    const auto message = next();
    if (message.contains("done")) {
      on_sample_(static_cast<int64_t>(n_in_use_));
      return results;
    }
    if (message.contains("more") || message.contains("at")) continue;
    auto result = message.get<JobResult>();
    if (const auto error = result.error(); error == kOutOfMemory)  // no fault of a plan's: nothing is stored of it
      throw EnvironmentError(concat("search: ", error, "; run the same command to resume"));
    results.at(static_cast<size_t>(result.compressor)) = std::move(result);
  }
}

int64_t PlanScorer::n_answer_tokens() const {
  int64_t n = 0;
  for (const auto& sample : samples_) n += static_cast<int64_t>(sample.answer_ids.size());
  return n;
}

// The last token of an answer is never fed back.
int64_t PlanScorer::fp16_bytes() const {
  int64_t n_tokens = 0;
  for (const auto& sample : samples_) {
    n_tokens += static_cast<int64_t>(sample.asked.prompt.prompt_ids.size() + sample.answer_ids.size()) - 1;
  }
  return 4 * shape_.n_layers * shape_.n_kv_heads * shape_.head_dim * n_tokens;
}

std::vector<CandidateScore> PlanScorer::score(const std::vector<CompressorChoice>& compressors) {
  use(compressors);
  std::vector<CandidateScore> scores(compressors.size());
  for (auto& score : scores) score.bytes_of_layer.resize(static_cast<size_t>(n_layers()));
  for (const auto& sample : samples_) {
    const LikelihoodJob asked{{{sample.asked.prompt.prompt_ids, {sample.answer_ids}}}};
    const auto answers = run(sample.sequence_key, asked);
    for (size_t c = 0; c < answers.size(); ++c) {
      const auto error = answers[c].error();
      if (scores[c].error.empty()) scores[c].error = error;
      if (!error.empty()) continue;
      const auto& scored = kind<LikelihoodResult>(answers[c]);
      for (const double log_likelihood : scored.likelihoods.at(0).at(0).log_likelihoods) {
        scores[c].nll -= log_likelihood;
      }
      for (const auto& row : scored.bytes) scores[c].bytes_of_layer.at(static_cast<size_t>(row.layer)) += row.bytes;
    }
  }
  for (auto& score : scores) {
    score.nll /= static_cast<double>(n_answer_tokens());
    if (!score.error.empty()) score.bytes_of_layer.clear();
  }
  return scores;
}

std::vector<double> PlanScorer::n_correct(const std::vector<CompressorChoice>& compressors) {
  use(compressors);
  std::vector<double> n_correct(compressors.size(), 0);
  for (const auto& sample : samples_) {
    const auto& spec = sample.of.task->spec;
    const auto& extractor = spec.extractors.front();
    const auto gold = parse_gold(sample.of.sample->gold, has_structured_gold(spec));
    const auto answers = run(sample.sequence_key, sample.asked);
    for (size_t c = 0; c < answers.size(); ++c) {
      const auto error = answers[c].error();
      KVC_CHECK(error.empty(), "search: ", spec.name, ", sample ", sample.of.sample->id, ": ", error);
      const auto& text = kind<GenerateResult>(answers[c]).text;
      n_correct[c] += scorer_.score(extractor, extract_answer(extractor, text), gold);
    }
  }
  return n_correct;
}

}  // namespace kvc
