#include "run/job_maker.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "experiment/sample_job.h"
#include "text/common_prefix.h"

namespace kvc {
namespace {

using Ids = std::vector<int64_t>;

// Ids that are prefilled.
const Ids& prefilled(const EncodedPrompt& prompt) {
  return prompt.scored.empty() ? prompt.ids : prompt.scored.front().prompt_ids;
}

}  // namespace

JobMaker::JobMaker(const Grid& grid, const Experiment& experiment, ResultStore* store)
    : grid_(grid),
      experiment_(experiment),
      store_(store),
      tokenizer_(Tokenizer::load(grid.worker.model)),
      shared_ids_(grid.tasks.size()) {}

Job JobMaker::make(PendingJob& pending) {
  const auto& task = grid_.tasks[pending.task];
  const auto& sample = task.data.samples[pending.sample];
  pending.prompt = encode(pending.task, pending.sample);
  auto job = sample_job(task.spec, sample, experiment_, tokenizer_);
  const auto& ids = prefilled(pending.prompt);
  const auto n_compressed = static_cast<int64_t>(ids.size()) - pending.prompt.n_question_tokens;
  job.n_shared_tokens = std::min(static_cast<int64_t>(common_prefix(shared_ids(pending.task), ids)), n_compressed);
  job.scored = pending.prompt.scored;
  if (job.scored.empty()) job.prompt_ids = ids;
  job.n_question_tokens = pending.prompt.n_question_tokens;
  job.reference = grid_.tasks[pending.task].reference;
  job.compressors = pending.compressors;
  if (experiment_.kind == RunKind::probe) {
    job.scored.clear();  // of a task of choices the context is looked into
    job.prompt_ids = ids;
    job.probe = probe_of(pending.task, sample);
    if (task.spec.likelihood) job.probe->answer_ids = pending.prompt.scored.front().continuations.front();
  }
  return job;
}

// Which sample's name it has follows from the compressor, so that another run measures the same.
Job JobMaker::make_sizes(const PendingJob& pending) const {
  constexpr size_t kNames = 1000;  // as many as large tasks have samples
  const auto& record = grid_.cells.at(static_cast<size_t>(pending.compressors.front())).record;
  Job job;
  Sample sample;
  sample.id = static_cast<int64_t>(std::hash<std::string>()(record.plugin_sha256 + record.options_json) % kNames);
  job.sequence_key = sequence_key(experiment_, sample);
  job.compressors = pending.compressors;
  job.sizes = pending.sizes;
  return job;
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
    *shared = prefilled(encode(task, 0));
    shared->resize(common_prefix(*shared, prefilled(encode(task, 1))));
  } catch (const Error&) {
    shared->clear();  // the sample itself says why, when it is its turn
  }
  return *shared;
}

JobProbe JobMaker::probe_of(size_t task, const Sample& sample) {
  JobProbe probe{experiment_.probe, {}, {}};
  const auto cell = std::find_if(grid_.cells.begin(), grid_.cells.end(), [&](const auto& c) { return c.task == task; });
  auto settings = nlohmann::json::parse(cell->record.generation_json);
  settings.erase("probe");  // as the eval cell has them
  probe.answer_ids = store_->full_precision_answer(cell->record, settings.dump(), sample.id);
  if (experiment_.dump.empty()) return probe;
  auto name = concat(cell->record.task, "-", sample.id);
  std::replace(name.begin(), name.end(), '/', '_');
  std::filesystem::create_directories(experiment_.dump);
  probe.dump = (std::filesystem::absolute(experiment_.dump) / name).string();
  return probe;
}

}  // namespace kvc
