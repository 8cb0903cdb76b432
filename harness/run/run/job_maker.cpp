#include "run/job_maker.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "experiment/sample_job.h"
#include "text/common_prefix.h"

namespace kvc {

JobMaker::JobMaker(const Grid& grid, const Experiment& experiment, ResultStore* store)
    : grid_(grid),
      experiment_(experiment),
      store_(store),
      tokenizer_(Tokenizer::load(grid.worker.model_path)),
      shared_ids_(grid.tasks.size()) {
  tokenizer_.check_rows(grid.vocab_size, grid.worker.model_path);
}

Job JobMaker::make(PendingJob& pending) {
  if (!pending.sizes.empty()) return make_sizes(pending);
  const auto& task = grid_.tasks[pending.task];
  const auto& sample = task.data.samples[pending.sample];
  const auto& prompt = pending.prompt = encode(pending.task, pending.sample);
  Job job{.sequence_key = sequence_key(experiment_, sample), .compressors = pending.compressors};
  if (experiment_.kind == RunKind::probe) {
    job.asked = probe_of(pending, sample);
    return job;
  }
  const auto& ids = prompt.prefilled();
  const auto n_compressed = static_cast<int64_t>(ids.size()) - prompt.n_question_tokens;
  const auto n_shared = std::min(static_cast<int64_t>(common_prefix(shared_ids(pending.task), ids)), n_compressed);
  if (prompt.scored.empty()) {
    job.asked = GenerateJob{
        .prompt = {.prompt_ids = ids, .n_question_tokens = prompt.n_question_tokens, .n_shared_tokens = n_shared},
        .stop = stop_rule(task.spec, tokenizer_)};
    return job;
  }
  LikelihoodJob scored{prompt.scored, task.reference};
  for (auto& text : scored.prompts) text.n_shared_tokens = n_shared;
  job.asked = std::move(scored);
  return job;
}

// Which sample's name it has follows from the compressor, so that another run measures the same.
Job JobMaker::make_sizes(const PendingJob& pending) const {
  constexpr size_t kNames = 1000;  // as many as large tasks have samples
  const auto& record = grid_.cells.at(static_cast<size_t>(pending.compressors.front())).record;
  Sample sample;
  sample.id = static_cast<int64_t>(std::hash<std::string>()(record.plugin_sha256 + record.options_json) % kNames);
  return {.sequence_key = sequence_key(experiment_, sample),
          .compressors = pending.compressors,
          .asked = SizesJob{pending.sizes}};
}

EncodedPrompt JobMaker::encode(size_t task, size_t sample) const {
  const auto& t = grid_.tasks[task];
  return encode_prompt(
      t.spec, t.data, t.data.samples[sample], tokenizer_,
      {&t.chat, t.system_message, grid_.context, experiment_.max_prompt_tokens, experiment_.question_after});
}

// Ids that the task's first two prompts begin with alike; none where one of them cannot be encoded.
const JobMaker::Ids& JobMaker::shared_ids(size_t task) {
  auto& shared = shared_ids_[task];
  if (shared) return *shared;
  shared.emplace();
  if (grid_.tasks[task].data.samples.size() < 2) return *shared;
  try {
    *shared = encode(task, 0).prefilled();
    shared->resize(common_prefix(*shared, encode(task, 1).prefilled()));
  } catch (const Error&) {
    shared->clear();  // the sample itself says why, when it is its turn
  }
  return *shared;
}

// Of a task of choices its context is looked into.
ProbeJob JobMaker::probe_of(const PendingJob& pending, const Sample& sample) const {
  const auto task = pending.task;
  const auto& spec = grid_.tasks[task].spec;
  ProbeJob probe{
      .prompt_ids = pending.prompt.prefilled(), .stop = stop_rule(spec, tokenizer_), .settings = experiment_.probe};
  const auto cell = std::find_if(grid_.cells.begin(), grid_.cells.end(), [&](const auto& c) { return c.task == task; });
  auto settings = nlohmann::json::parse(cell->record.generation_json);
  settings.erase("probe");  // as the eval cell has them
  probe.answer_ids = spec.likelihood ? pending.prompt.scored.front().continuations.front()
                                     : store_->full_precision_answer(cell->record, settings.dump(), sample.id);
  if (experiment_.dump.empty()) return probe;
  std::filesystem::create_directories(experiment_.dump);
  probe.dump = dump_prefix(experiment_, cell->record.task, sample.id).string();
  return probe;
}

}  // namespace kvc
