#include "run/run_progress.h"

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace kvc {
namespace {

// Rows that the model computes together and prefixes that it keeps are multiples of it. An estimate alone hangs on it.
constexpr double kRows = 64;
constexpr double kEstimateSeconds = 0.5;  // between two estimates

double whole_rows(double n_tokens) { return std::ceil(n_tokens / kRows) * kRows; }

// Sizes are no task's.
WorkEstimate::Prompt work_of_sizes(const Grid& grid, const std::vector<int64_t>& sizes) {
  WorkEstimate::Prompt work;
  work.task = grid.tasks.size();
  work.forced = 0;
  for (const int64_t n_tokens : sizes) work.context += static_cast<double>(n_tokens);
  return work;
}

}  // namespace

WorkEstimate::Prompt work_of(const Job& job, size_t task, bool share_prefix) {
  WorkEstimate::Prompt work;
  work.task = task;
  const double shared = share_prefix ? std::floor(static_cast<double>(job.n_shared_tokens) / kRows) * kRows : 0;
  const auto add = [&](const std::vector<int64_t>& ids) {
    const auto n = static_cast<double>(ids.size());
    work.context += n;
    work.computed += whole_rows(std::max(1.0, n - shared));
  };
  if (job.scored.empty()) {
    add(job.prompt_ids);
    work.limit = static_cast<double>(job.max_new_tokens);
    if (job.probe) work.forced = 0;  // its prompt's time is all of it
    return work;
  }
  work.forced = work.n_sequences = 0;
  for (const auto& text : job.scored) {
    add(text.prompt_ids);
    work.n_sequences += static_cast<double>(std::max<size_t>(1, text.continuations.size()));
    for (const auto& ids : text.continuations) work.forced += static_cast<double>(ids.size());
  }
  work.context /= static_cast<double>(job.scored.size());
  return work;
}

void guess_work(const Grid& grid, const Experiment& experiment, JobMaker& maker, std::deque<PendingJob>& jobs) {
  struct Known {
    WorkEstimate::Prompt work;
    double n_characters = 0, n_in_choices = 0, shared = 0;
  };
  std::map<size_t, Known> known;  // by task
  const auto characters = [&](const PendingJob& job) {
    const auto& task = grid.tasks[job.task];
    const auto& sample = task.data.samples[job.sample];
    return std::max(1.0, static_cast<double>(render_prompt(task.spec, task.data, sample).text.size()));
  };
  const auto in_choices = [&](const PendingJob& job) {
    double n = 0;
    for (const auto& text : grid.tasks[job.task].data.samples[job.sample].choices)
      n += static_cast<double>(text.size());
    return std::max(1.0, n);
  };
  for (auto& job : jobs) {
    if (!job.sizes.empty()) {
      job.work = work_of_sizes(grid, job.sizes);
      continue;
    }
    const bool is_window = grid.tasks[job.task].spec.likelihood.has_value();  // as long as any other
    if (!known.contains(job.task)) {
      auto first = job;
      Known of_task;
      of_task.work.task = job.task;
      try {
        const auto made = maker.make(first);
        of_task.work = work_of(made, job.task, false);
        of_task.shared = of_task.work.computed - work_of(made, job.task, experiment.share_prefix).computed;
        of_task.n_characters = is_window ? 1 : characters(job);
        of_task.n_in_choices = in_choices(job);
      } catch (const Error&) {  // it says why when it is its turn
      }
      known.emplace(job.task, of_task);
    }
    const auto& like = known.at(job.task);
    job.work = like.work;
    if (like.n_characters <= 0) continue;
    const double longer = is_window ? 1 : characters(job) / like.n_characters;
    const auto& spec = grid.tasks[job.task].spec;
    double most = static_cast<double>(grid.context);
    if (spec.limit.max_tokens) most = std::min(most, static_cast<double>(*spec.limit.max_tokens));
    if (experiment.max_prompt_tokens) most = std::min(most, static_cast<double>(*experiment.max_prompt_tokens));
    const double n_tokens = like.work.context * longer;
    if (n_tokens > most && spec.limit.side == PromptLimit::Side::kRefuse) {
      job.work.context = job.work.computed = job.work.forced = 0;
      continue;
    }
    job.work.context = std::min(most, n_tokens);
    if (job.work.forced > 0) job.work.forced *= in_choices(job) / like.n_in_choices;
    const double n_texts = std::max(1.0, std::round(like.work.computed / std::max(1.0, whole_rows(like.work.context))));
    job.work.computed = n_texts * whole_rows(std::max(1.0, job.work.context - like.shared / n_texts));
  }
}

void RunProgress::plan(const PendingJob& job) {
  estimate_.plan(job.work, job.compressors);
  if (job.sizes.empty()) ++n_prompts_;
}

void RunProgress::unplan(const PendingJob& job) { estimate_.unplan(job.work, job.compressors); }

void RunProgress::ready() {
  if (!ready_) ready_ = told_ = Clock::now();
}

double RunProgress::seconds_at_work() const { return ready_ ? seconds_since(*ready_) : 0; }

void RunProgress::given(const Job& job, const PendingJob& pending) {
  const auto work = job.sizes.empty() ? work_of(job, pending.task, experiment_.share_prefix) : pending.work;
  estimate_.unplan(pending.work, pending.compressors);
  estimate_.begin(job.id, work, pending.compressors);
  auto& kept = given_[job.id] = pending;
  kept.prompt = {};
  kept.work = work;
  since_[job.id] = Clock::now();
  if (job.sizes.empty()) ++n_prompts_begun_;
}

void RunProgress::told(const WorkerAt& at) {
  const auto job = given_.find(at.job);
  bool warms_up = false;
  if (job != given_.end()) {
    const bool is_done = at.prefilled >= 1;
    const double n_tokens = is_done ? static_cast<double>(at.n_tokens) : 0;
    estimate_.prefilled(at.job, std::clamp(at.prefilled, 0.0, 1.0),
                        is_done ? std::max(whole_rows(n_tokens), 1.0) : job->second.work.computed, at.prefill_seconds);
    if (is_done && prefilled_.insert(at.job).second) n_prefilled_ += n_tokens;
    warms_up = is_done && !is_warm_;
  }
  for (const auto& [id, compressor, n_new_tokens, seconds] : at.answers) {
    estimate_.decoded(id, compressor, n_new_tokens, seconds);
  }
  told_ = Clock::now();
  seconds_told_ = seconds_at_work();
  if (!warms_up) return;
  estimate_.warmed_up(seconds_told_);
  is_warm_ = true;
}

void RunProgress::ended(const PendingJob& job, const JobResult& result) {
  const auto given = given_.find(result.job);
  if (given == given_.end()) return;
  const auto& work = given->second.work;
  const auto& m = result.measured;
  if (!result.error.empty()) {
    estimate_.failed(result.job, result.compressor);
  } else if (!job.sizes.empty()) {
    estimate_.decoded(result.job, result.compressor, 0, seconds_since(since_.at(result.job)));
  } else if (result.probe.empty()) {
    const bool is_cut = result.stop_reason == "limit" || result.stop_reason == "context";
    estimate_.ended(result.job, result.compressor, work.forced >= 0 ? std::llround(work.forced) : m.n_new_tokens,
                    m.encode_seconds + m.attend_seconds + m.other_seconds, is_cut);
  }
}

void RunProgress::done(int64_t job) {
  estimate_.forget(job);
  given_.erase(job), since_.erase(job), prefilled_.erase(job);
}

std::optional<double> RunProgress::seconds_left() const {
  if (seconds_since(estimated_at_) > kEstimateSeconds) {
    estimated_ = new_estimate();
    estimated_at_ = Clock::now();
  }
  if (!estimated_) return std::nullopt;
  return std::max(0.0, *estimated_ - seconds_since(estimated_at_));
}

std::optional<double> RunProgress::new_estimate() const {
  const auto left = estimate_.seconds_left(seconds_told_, static_cast<double>(experiment_.workers));
  if (!left) return std::nullopt;
  return std::max(0.0, *left - seconds_since(told_));
}

std::string RunProgress::doing() const {
  if (!ready_) return "loading the model";
  if (given_.empty()) return waits_ ? "waiting for another run" : "";
  const auto& [newest, job] = *given_.rbegin();
  if (!job.sizes.empty()) {
    return concat("sizes, ", grid_.cells[static_cast<size_t>(job.compressors.front())].record.plugin);
  }
  const auto& task = grid_.tasks[job.task].spec.name;
  const auto of_all = concat(n_prompts_begun_, " of ", std::max(n_prompts_, n_prompts_begun_));
  if (!prefilled_.contains(newest)) return concat("prefill ", of_all, ", ", task);
  size_t n_sequences = 0;
  for (const auto& [id, under_way] : given_) {
    if (!prefilled_.contains(id)) continue;
    n_sequences += under_way.compressors.size();
  }
  return concat("decode of ", n_sequences, " answers, prompt ", of_all, ", ", task);
}

RunRow RunProgress::row() const {
  RunRow row;
  row.n_done = n_done_, row.n_total = n_total_;
  row.seconds_left = seconds_left();
  const double so_far = seconds_at_work();
  if (so_far > 0) row.tokens_per_second = (n_prefilled_ + estimate_.n_decoded()) / so_far;
  row.doing = doing();
  return row;
}

void RunProgress::show() {
  const auto row = this->row();
  ProgressState state;
  state.n_done = row.n_done, state.n_total = row.n_total, state.unit = "samples";
  state.seconds_left = row.seconds_left;
  const double so_far = seconds_at_work();
  if (state.seconds_left && so_far > 0) state.share = so_far / (so_far + *state.seconds_left);
  state.tokens_per_second = row.tokens_per_second.value_or(0);
  state.doing = row.doing;
  progress_.show(state);
}

}  // namespace kvc
