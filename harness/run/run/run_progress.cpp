#include "run/run_progress.h"

#include <algorithm>

#include "run/prompt_work.h"
#include "text/utf8.h"

namespace kvc {
namespace {

constexpr double kEstimateSeconds = 0.5;  // between two estimates
constexpr int kPrefill = WorkEstimate::kPrefill;

}  // namespace

void RunProgress::plan(const PendingJob& job) {
  estimate_.plan(job.work, job.compressors);
  n_prompts_ += job.sizes.empty() && !job.was_taken;  // such a job is planned anew whenever it is asked for
}

void RunProgress::ready() {
  if (!ready_) ready_ = Clock::now();
}

void RunProgress::given(const Job& job, const PendingJob& pending) {
  unplan(pending);
  const bool has_sizes = std::holds_alternative<SizesJob>(job.asked);
  n_prompts_begun_ += !has_sizes;
  const auto work = has_sizes ? pending.work : work_of(job, pending.task, experiment_.share_prefix);
  auto& given = given_[job.id] = {.task = pending.task, .has_sizes = has_sizes, .work = work};
  for (const int compressor : pending.compressors) given.told[compressor];
}

// All that a prefill or an answer has come to, in place of what was told of it before.
void RunProgress::hear(int64_t job, int compressor, double n, double seconds) {
  const auto given = given_.find(job);
  if (given == given_.end() || !given->second.told.contains(compressor)) return;
  const auto& work = given->second.work;
  auto& told = given->second.told.at(compressor);
  const bool is_encoding = compressor != kPrefill && n == 0;
  if (!is_encoding) estimate_.measured(work, compressor, n, n - told.n, seconds - told.seconds);
  if (is_encoding && told.seconds == 0) estimate_.encoded(work, compressor, seconds);
  told = {n, seconds};
}

void RunProgress::told(const WorkerAt& at) {
  if (const auto job = given_.find(at.job); job != given_.end()) {
    auto& computed = job->second.work.computed;
    if (at.prefilled >= 1) computed = static_cast<double>(at.n_tokens);
    hear(at.job, kPrefill, std::clamp(at.prefilled, 0.0, 1.0) * computed, at.prefill_seconds);
  }
  for (const auto& [job, compressor, n_new_tokens, seconds] : at.answers)
    hear(job, compressor, static_cast<double>(n_new_tokens), seconds);
  told_at_ = seconds_at_work();
}

void RunProgress::ended(const JobResult& result) {
  const auto given = given_.find(result.job);
  if (given == given_.end()) return;
  const auto& work = given->second.work;
  if (std::holds_alternative<SizesResult>(result.answer)) {
    hear(result.job, result.compressor, 0, seconds_since(given->second.since));
  } else if (const auto* caches = result.measured()) {
    const auto& m = caches->measured;
    const double n_new = work.forced >= 0 ? work.forced : static_cast<double>(m.n_new_tokens);
    hear(result.job, result.compressor, std::max(1.0, n_new), m.encode_seconds + m.attend_seconds + m.other_seconds);
    if (work.forced < 0) estimate_.answered(work, result.compressor, n_new);
  }
  given->second.told.erase(result.compressor);
}

void RunProgress::estimate() {
  if (seconds_since(estimated_) < kEstimateSeconds) return;
  estimated_ = Clock::now();
  auto left = estimate_.planned();
  for (const auto& [id, job] : given_) {
    for (const auto& [compressor, told] : job.told)
      left.add(estimate_.left_of(job.work, compressor, told.n, told.seconds > 0));
  }
  const double done = estimate_.tokens_done();
  share_ = done > 0 ? done / (done + left.tokens) : 0;
  end_at_ = estimate_.seconds_left(left, told_at_, static_cast<double>(experiment_.workers));
  if (end_at_) *end_at_ += told_at_;
}

std::string RunProgress::doing() const {
  if (!ready_) return "loading the model";
  if (given_.empty()) return waits_ ? "waiting for another run" : "";
  const auto& [id, newest] = *given_.rbegin();
  if (newest.has_sizes) return "cache sizes";
  const auto n_prompts = std::max(n_prompts_, n_prompts_begun_);
  return concat("prompt ", n_prompts_begun_, " of ", n_prompts, ", ", grid_.tasks[newest.task].spec.name);
}

RunRow RunProgress::row() const {
  RunRow row;
  row.n_done = n_done_, row.n_total = n_total_;
  const double so_far = seconds_at_work();
  row.doing = doing();
  if (so_far > 0) row.tokens_per_second = estimate_.tokens_done() / so_far;
  if (!end_at_) return row;
  row.seconds_left = left_of_estimate(*end_at_ - so_far, n_done_ == n_total_, row.doing);
  return row;
}

void RunProgress::show() {
  estimate();
  const auto row = this->row();
  progress_.show({.n_done = row.n_done,
                  .n_total = row.n_total,
                  .unit = "samples",
                  .share = share_,
                  .seconds_left = row.seconds_left,
                  .tokens_per_second = row.tokens_per_second.value_or(0),
                  .doing = row.doing});
}

}  // namespace kvc
