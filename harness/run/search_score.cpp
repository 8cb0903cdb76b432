#include "run/search_score.h"

#include <algorithm>

#include "generate/exact_cache.h"
#include "run/encode_prompt.h"
#include "run/load_model.h"

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

PlanScorer::PlanScorer(const Grid& grid, const std::vector<SearchSample>& samples, const Experiment& experiment)
    : sampling_(grid.worker.sampling),
      model_(load_model(grid.worker.model, grid.worker.dtype, grid.worker.weights, grid.worker.devices,
                        grid.worker.quantization)),
      tokenizer_(Tokenizer::load(grid.worker.model)),
      generator_(model_, tokenizer_, meter_, false) {
  const ExactCompressor exact;
  for (const auto& sample : samples) {
    const auto& task = *sample.task;
    KVC_CHECK(task.spec.kind == TaskSpec::Kind::kGenerate, "search: ", task.spec.name,
              " scores given texts; expected tasks whose answers the model writes");
    Prepared prepared{sample, {}, {}, 0};
    prepared.prompt_ids = encode_prompt(task.spec, task.data, *sample.sample, tokenizer_,
                                        {&task.chat, task.system_message, grid.context, experiment.max_prompt_tokens})
                              .ids;
    // As in a run: a cache's randomness is the sample's.
    prepared.sequence_key =
        static_cast<uint64_t>(experiment.seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(sample.sample->id);
    prepared.answer_ids = run(prepared, {&exact}, Sampling(), false).front().ids;
    samples_.push_back(std::move(prepared));
  }
}

std::vector<Generation> PlanScorer::run(const Prepared& sample, const std::vector<const Compressor*>& compressors,
                                        const Sampling& sampling, bool scored) {
  const auto& task = sample.of.task->spec;
  GenerationRequest request;
  request.prompt_ids = sample.prompt_ids;
  request.compressors = compressors;
  request.sequence_key = sample.sequence_key;
  request.stop = {model_.config().eos_token_ids, task.stop, task.max_new_tokens, task.min_new_tokens};
  for (const auto& text : task.stop_tokens) request.stop.eos_ids.push_back(tokenizer_.encode(text, false).back());
  request.sampling = sampling;
  if (scored) request.continuations = {sample.answer_ids};
  generator_.add(std::move(request));
  std::vector<Generation> answers(compressors.size());
  while (generator_.n_sequences() > 0) {
    for (auto& finished : generator_.step()) answers[finished.compressor] = std::move(finished.generation);
  }
  return answers;
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
    n_tokens += static_cast<int64_t>(sample.prompt_ids.size() + sample.answer_ids.size()) - 1;
  }
  return 4 * shape().n_layers * shape().n_kv_heads * shape().head_dim * n_tokens;
}

std::vector<CandidateScore> PlanScorer::score(const std::vector<const Compressor*>& compressors) {
  std::vector<CandidateScore> scores(compressors.size());
  for (auto& score : scores) score.bytes_of_layer.resize(static_cast<size_t>(shape().n_layers));
  for (const auto& sample : samples_) {
    const auto answers = run(sample, compressors, Sampling(), true);
    for (size_t c = 0; c < answers.size(); ++c) {
      if (scores[c].error.empty()) scores[c].error = answers[c].error;
      for (const double log_likelihood : answers[c].log_likelihoods) scores[c].nll -= log_likelihood;
      for (size_t layer = 0; layer < answers[c].footprints.size(); ++layer) {
        scores[c].bytes_of_layer[layer] += answers[c].footprints[layer].total_bytes();
      }
    }
  }
  for (auto& score : scores) {
    score.nll /= static_cast<double>(n_answer_tokens());
    if (!score.error.empty()) score.bytes_of_layer.clear();
  }
  return scores;
}

std::vector<double> PlanScorer::n_correct(const std::vector<const Compressor*>& compressors) {
  std::vector<double> n_correct(compressors.size(), 0);
  for (const auto& sample : samples_) {
    const auto& extractor = sample.of.task->spec.extractors.front();
    const auto gold = parse_gold(sample.of.sample->gold, has_structured_gold(sample.of.task->spec));
    const auto answers = run(sample, compressors, sampling_, false);
    for (size_t c = 0; c < answers.size(); ++c) {
      KVC_CHECK(answers[c].error.empty(), "search: ", sample.of.task->spec.name, ", sample ", sample.of.sample->id,
                ": ", answers[c].error);
      n_correct[c] += scorer_.score(extractor, extract_answer(extractor, answers[c].text), gold);
    }
  }
  return n_correct;
}

}  // namespace kvc
