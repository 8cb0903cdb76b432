#include "run/prompt_work.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvc {
namespace {

constexpr double kRows = 64;  // shared prefixes are kept in multiples of it

// The first prompt of a task, and the lengths that others are compared with.
struct Measured {
  WorkEstimate::Prompt work;                         // as if nothing were shared
  double shared = 0;                                 // tokens
  double n_characters = 0, n_choice_characters = 0;  // 0: it could not be made
};

double characters_of(const Grid& grid, const PendingJob& job) {
  const auto& task = grid.tasks[job.task];
  if (task.spec.likelihood) return 1;  // a window is as long as any other
  const auto prompt = render_prompt(task.spec, task.data, task.data.samples[job.sample]);
  return std::max(1.0, static_cast<double>(prompt.text.size()));
}

double choice_characters_of(const Grid& grid, const PendingJob& job) {
  double n = 0;
  for (const auto& text : grid.tasks[job.task].data.samples[job.sample].choices) n += static_cast<double>(text.size());
  return std::max(1.0, n);
}

Measured measure(const Grid& grid, const Experiment& experiment, JobMaker& maker, PendingJob job) {
  Measured found;
  found.work.task = job.task;
  try {
    const auto made = maker.make(job);
    found.work = work_of(made, job.task, false);
    found.shared = found.work.computed - work_of(made, job.task, experiment.share_prefix).computed;
    found.n_characters = characters_of(grid, job), found.n_choice_characters = choice_characters_of(grid, job);
  } catch (const Error&) {  // it says why when it is its turn
  }
  return found;
}

WorkEstimate::Prompt guess(const Grid& grid, const Experiment& experiment, const Measured& first,
                           const PendingJob& job) {
  auto work = first.work;
  if (first.n_characters == 0 || work.context == 0) return work;
  const auto& limit = grid.tasks[job.task].spec.limit;
  auto most = static_cast<double>(grid.context);
  for (const auto& n : {limit.max_tokens, experiment.max_prompt_tokens}) {
    if (n) most = std::min(most, static_cast<double>(*n));
  }
  work.context *= characters_of(grid, job) / first.n_characters;
  if (work.context > most && limit.side == PromptLimit::Side::kRefuse) return {.task = job.task, .forced = 0};
  work.context = std::min(most, work.context);
  work.computed = std::max(1.0, work.computed * work.context / first.work.context - first.shared);
  if (work.forced > 0) work.forced *= choice_characters_of(grid, job) / first.n_choice_characters;
  return work;
}

}  // namespace

WorkEstimate::Prompt work_of(const Job& job, size_t task, bool share_prefix) {
  WorkEstimate::Prompt work{.task = task};
  const auto add = [&](const TokenPrompt& prompt) {
    const auto n = static_cast<double>(prompt.prompt_ids.size());
    const double shared = share_prefix ? std::floor(static_cast<double>(prompt.n_shared_tokens) / kRows) * kRows : 0;
    work.context += n;
    work.computed += std::max(1.0, n - shared);
  };
  if (const auto* asked = std::get_if<GenerateJob>(&job.asked)) {
    add(asked->prompt);
    work.limit = static_cast<double>(asked->stop.max_new_tokens);
  } else if (const auto* probe = std::get_if<ProbeJob>(&job.asked)) {
    add({probe->prompt_ids});
    work.forced = 0;  // its prompt's time is all of it
  } else if (const auto* scored = std::get_if<LikelihoodJob>(&job.asked)) {
    work.forced = work.n_sequences = 0;
    for (const auto& prompt : scored->prompts) {
      add(prompt);
      work.n_sequences += static_cast<double>(prompt.continuations.size());
      for (const auto& ids : prompt.continuations) work.forced += static_cast<double>(ids.size());
    }
    work.context /= static_cast<double>(scored->prompts.size());
  }
  return work;
}

void guess_work(const Grid& grid, const Experiment& experiment, JobMaker& maker, std::deque<PendingJob>& jobs) {
  std::map<size_t, Measured> first;  // by task
  for (auto& job : jobs) {
    if (!job.sizes.empty()) {
      job.work = {.task = grid.tasks.size(), .forced = 0};  // sizes are no task's
      for (const int64_t n_tokens : job.sizes) job.work.context += static_cast<double>(n_tokens);
      continue;
    }
    if (!first.contains(job.task)) first.emplace(job.task, measure(grid, experiment, maker, job));
    job.work = guess(grid, experiment, first.at(job.task), job);
  }
}

}  // namespace kvc
