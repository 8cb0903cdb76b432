#include "run/work_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvc {
namespace {

constexpr double kSpread = 0.2;        // of the mean context: contexts that spread by it give half of a slope
constexpr double kPriorSeconds = 1;    // measured, for which the clock is taken to have passed alike
constexpr double kEnoughAnswers = 4;   // of a compressor on a task, to go by these alone
constexpr double kPastTheMean = 0.25;  // of its tokens, that an answer longer than the mean is expected to add
constexpr int kTogether = -1;          // all compressors
constexpr size_t kAllTasks = std::numeric_limits<size_t>::max();
// What the mean of several prompts is made of.
constexpr double WorkEstimate::Prompt::*kFields[] = {&WorkEstimate::Prompt::context, &WorkEstimate::Prompt::computed,
                                                     &WorkEstimate::Prompt::n_sequences, &WorkEstimate::Prompt::forced,
                                                     &WorkEstimate::Prompt::limit};

// Encoding is a line over prompts per thousand tokens: what a prompt costs besides its tokens, most of short ones.
double prompts_per_thousand(const WorkEstimate::Prompt& prompt) { return 1000 / std::max(1.0, prompt.context); }

// Of the n tokens after n_done, the mean.
double context_of(const WorkEstimate::Prompt& prompt, int compressor, double n_done, double n) {
  if (compressor == WorkEstimate::kPrefill) return prompt.context - std::min(prompt.context, prompt.computed) / 2;
  return prompt.context + (n_done + n / 2) / std::max(1.0, prompt.n_sequences);
}

}  // namespace

void TokenRate::add(double n_tokens, double context, double seconds) {
  tokens_ += n_tokens;
  context_ += n_tokens * context;
  context2_ += n_tokens * context * context;
  seconds_ += seconds;
  context_seconds_ += context * seconds;
}

double TokenRate::seconds(double n_tokens, double context) const {
  if (!is_known()) return 0;
  const double mean = context_ / tokens_, rate = seconds_ / tokens_;
  const double spread = std::max(0.0, context2_ / tokens_ - mean * mean) + std::pow(kSpread * mean + least_spread_, 2);
  const double slope = mean > 0 ? (context_seconds_ / tokens_ - mean * rate) / spread : 0;
  const double most = mean > 0 ? rate / mean : 0;  // beyond it tokens without a context would take less than nothing
  return std::max(0.0, rate + std::clamp(slope, 0.0, std::max(0.0, most)) * (context - mean)) * n_tokens;
}

void WorkEstimate::Rates::add(int compressor, double n_tokens, double context, double seconds) {
  if (compressor != kPrefill) any.add(n_tokens, context, seconds);
  own.try_emplace(compressor, least_spread).first->second.add(n_tokens, context, seconds);
}

double WorkEstimate::Rates::seconds(int compressor, double n_tokens, double context) const {
  auto found = own.find(compressor);
  if (found != own.end() && found->second.is_known()) return found->second.seconds(n_tokens, context);
  if (any.is_known()) return any.seconds(n_tokens, context);
  found = own.find(kPrefill);
  return found == own.end() ? 0 : found->second.seconds(n_tokens, context);
}

void WorkEstimate::plan(const Prompt& prompt, const std::vector<int>& compressors, double times) {
  const auto add = [&](int compressor) {
    auto& planned = planned_[{prompt.task, compressor}];
    planned.n += times;
    for (const auto field : kFields) planned.sum.*field += times * prompt.*field;
  };
  add(kPrefill);
  for (const int compressor : compressors) add(compressor);
}

void WorkEstimate::measured(const Prompt& prompt, int compressor, double n_done, double n_more, double seconds) {
  rates_.add(compressor, n_more, context_of(prompt, compressor, n_done - n_more, n_more), seconds);
  tokens_done_ += n_more, seconds_done_ += seconds;
}

void WorkEstimate::encoded(const Prompt& prompt, int compressor, double seconds) {
  encode_.add(compressor, prompt.context * prompt.n_sequences, prompts_per_thousand(prompt), seconds);
  seconds_done_ += seconds;
}

void WorkEstimate::answered(const Prompt& prompt, int compressor, double n_new) {
  for (const auto& place :
       {Place(prompt.task, compressor), Place(prompt.task, kTogether), Place(kAllTasks, kTogether)}) {
    auto& lengths = lengths_[place];
    ++lengths.n, lengths.tokens += n_new, lengths.limits += prompt.limit;
  }
}

// The mean so far: of the compressor on the task, of the task where these are few; of a task without answers, the share
// of their limits that others' got.
double WorkEstimate::expected_tokens(const Prompt& prompt, int compressor) const {
  if (compressor == kPrefill) return prompt.computed;
  if (prompt.forced >= 0) return prompt.forced;
  const auto seen = [&](size_t task, int c) {
    const auto found = lengths_.find({task, c});
    return found == lengths_.end() ? Lengths() : found->second;
  };
  auto lengths = seen(prompt.task, compressor);
  if (lengths.n < kEnoughAnswers) lengths = seen(prompt.task, kTogether);
  if (lengths.n > 0) return std::min(prompt.limit, lengths.tokens / lengths.n);
  lengths = seen(kAllTasks, kTogether);
  return prompt.limit * (lengths.limits > 0 ? lengths.tokens / lengths.limits : unseen_share_);
}

WorkEstimate::Left WorkEstimate::left_of(const Prompt& prompt, int compressor, double n_done, bool is_encoded) const {
  double n = std::max(0.0, expected_tokens(prompt, compressor) - n_done);
  const bool may_go_on = compressor != kPrefill && prompt.forced < 0 && n_done > 0;
  if (n == 0 && may_go_on) n = std::min(kPastTheMean * n_done, std::max(0.0, prompt.limit - n_done));
  Left left{n, rates_.seconds(compressor, n, context_of(prompt, compressor, n_done, n))};
  if (compressor == kPrefill || is_encoded) return left;
  left.seconds += encode_.seconds(compressor, prompt.context * prompt.n_sequences, prompts_per_thousand(prompt));
  return left;
}

// Prompts of a task, and answers of a compressor to them, count as all of them alike.
WorkEstimate::Left WorkEstimate::planned() const {
  Left left;
  for (const auto& [place, planned] : planned_) {
    if (planned.n < 0.5) continue;
    auto mean = planned.sum;
    mean.task = place.first;
    for (const auto field : kFields) mean.*field /= planned.n;
    left.add(left_of(mean, place.second), planned.n);
  }
  return left;
}

std::optional<double> WorkEstimate::seconds_left(const Left& left, double seconds_so_far, double n_processes) const {
  if (seconds_done_ <= 0) return std::nullopt;
  return left.seconds * (seconds_so_far + kPriorSeconds / n_processes) / (seconds_done_ + kPriorSeconds);
}

}  // namespace kvc
