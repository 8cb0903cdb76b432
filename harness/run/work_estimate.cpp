#include "run/work_estimate.h"

#include <algorithm>
#include <cmath>

namespace kvc {
namespace {

// How far contexts must spread about their mean before a slope is believed: half where they spread by so much of it.
constexpr double kThousand = 1000;
constexpr double kSpread = 0.2;
constexpr double kRecentShare = 0.3, kRecentSeconds = 1;  // what a rate that is learnt anew remembers
constexpr double kPriorSeconds = 1;                       // measured, for which the clock is taken to have gone alike
constexpr double kUnseen = 0.7;        // of what the limit leaves where no answer was so long: from half of it to all
constexpr int64_t kEnoughAnswers = 4;  // of a compressor on a task, to go by them alone

// Of the tokens computed, which may be more than the prompt has: rows that are filled up, texts in sum.
double mean_context(const WorkEstimate::Prompt& prompt, double computed) {
  return prompt.context - std::min(prompt.context, computed) / 2;
}
double mean_context(const WorkEstimate::Prompt& prompt) { return mean_context(prompt, prompt.computed); }

}  // namespace

void TokenRate::add(double n_tokens, double context, double seconds) {
  tokens_ += n_tokens;
  context_ += n_tokens * context;
  context2_ += n_tokens * context * context;
  seconds_ += seconds;
  context_seconds_ += context * seconds;
}

void TokenRate::add_anew(double n_tokens, double context, double seconds) {
  all_seconds_ += seconds;
  const double kept = std::exp(-seconds / (kRecentShare * all_seconds_ + kRecentSeconds));
  for (double* sum : {&tokens_, &context_, &context2_, &seconds_, &context_seconds_}) *sum *= kept;
  add(n_tokens, context, seconds);
}

double TokenRate::seconds(double n_tokens, double sum_context) const {
  if (!is_known()) return 0;
  const double mean = context_ / tokens_, rate = seconds_ / tokens_;
  const double spread = std::max(0.0, context2_ / tokens_ - mean * mean);
  const double slope =
      mean > 0 ? (context_seconds_ / tokens_ - mean * rate) / (spread + std::pow(kSpread * mean + least_spread_, 2))
               : 0;
  const double most = mean > 0 ? rate / mean : 0;  // beyond it tokens without a context would take less than nothing
  const double b = std::clamp(slope, 0.0, std::max(0.0, most));
  return std::max(0.0, (rate - b * mean) * n_tokens + b * sum_context);
}

int64_t AnswerLengths::n() const {
  int64_t n = 0;
  for (const auto* counts : {&ends_, &cuts_}) {
    for (const auto& [n_tokens, count] : *counts) n += count;
  }
  return n;
}

void AnswerLengths::add(const AnswerLengths& other) {
  for (const auto& [n_tokens, count] : other.ends_) ends_[n_tokens] += count;
  for (const auto& [n_tokens, count] : other.cuts_) cuts_[n_tokens] += count;
}

double AnswerLengths::expected_more(double so_far, double limit) const {
  if (limit <= so_far) return 0;
  double n_ends = 0, n_tokens = 0, at_risk = static_cast<double>(n()), survivors = 1, area = 0, from = so_far;
  std::map<double, std::pair<double, double>> events;  // by tokens: ends, cuts
  for (const auto& [length, count] : ends_) {
    events[static_cast<double>(length)].first += static_cast<double>(count);
    n_ends += static_cast<double>(count);
    n_tokens += static_cast<double>(length * count);
  }
  for (const auto& [length, count] : cuts_) {
    events[static_cast<double>(length)].second += static_cast<double>(count);
    n_tokens += static_cast<double>(length * count);
  }
  for (const auto& [length, counts] : events) {
    if (length >= limit) return area + survivors * (limit - from);
    if (length > so_far) {
      area += survivors * (length - from);
      from = length;
      survivors *= 1 - counts.first / at_risk;
    }
    at_risk -= counts.first + counts.second;
    if (survivors <= 1e-9) return area;
  }
  const double chance = n_tokens > 0 ? n_ends / n_tokens : 0, rest = limit - from;
  const double constant = chance > 0 ? (1 - std::exp(-chance * rest)) / chance : rest;
  return area + survivors * std::min(constant, kUnseen * rest);
}

void WorkEstimate::count(const Prompt& prompt, const Compressors& compressors, double n) {
  auto& prefills = prefills_[prompt.task];
  prefills.computed += n * prompt.computed;
  prefills.context += n * prompt.computed * mean_context(prompt);
  for (const int compressor : compressors) {
    auto& answers = answers_[{prompt.task, compressor}];
    const double encoded = prompt.context * prompt.n_sequences, forced = std::max(0.0, prompt.forced);
    answers.prompt += n * encoded;
    answers.n_sequences += n * prompt.n_sequences;
    answers.forced += n * forced;
    answers.forced_context += n * forced * (prompt.context + forced / prompt.n_sequences / 2);
    if (prompt.forced >= 0) continue;
    answers.n += n;
    answers.limit += n * prompt.limit;
    answers.context += n * prompt.context;
  }
}

void WorkEstimate::begin(int64_t job, const Prompt& prompt, const Compressors& compressors) {
  auto& under_way = under_way_[job];
  under_way.prompt = prompt;
  for (const int compressor : compressors) under_way.compressors[compressor];
}

void WorkEstimate::prefilled(int64_t job, double share, double n_tokens, double seconds) {
  const auto found = under_way_.find(job);
  if (found == under_way_.end()) return;
  auto& told = found->second;
  prefill_.add(-told.share * told.n_tokens, mean_context(told.prompt, told.n_tokens), -told.prefill_seconds);
  prefill_.add(share * n_tokens, mean_context(told.prompt, n_tokens), seconds);
  cost_done_ += seconds - told.prefill_seconds;
  n_prefilled_ += share * n_tokens - told.share * told.n_tokens;
  told.share = share, told.n_tokens = n_tokens, told.prefill_seconds = seconds;
}

void WorkEstimate::book(const UnderWay& job, int compressor, const OfCompressor& told, double sign) {
  const double encoded = job.prompt.context * job.prompt.n_sequences;
  if (told.encode_seconds > 0) {
    for (auto* rate : {&encode_[compressor], &any_encode_}) {
      rate->add(sign * encoded, kThousand / std::max(1.0, job.prompt.context), sign * told.encode_seconds);
    }
  }
  cost_done_ += sign * (told.encode_seconds + told.decode_seconds);
  n_decoded_ += sign * told.n_new;
}

void WorkEstimate::decoded(int64_t job, int compressor, int64_t n_new_tokens, double seconds) {
  const auto found = under_way_.find(job);
  if (found == under_way_.end() || !found->second.compressors.contains(compressor)) return;
  auto& told = found->second.compressors[compressor];
  const auto before = told;
  book(found->second, compressor, told, -1);
  if (n_new_tokens == 0) told.encode_seconds = seconds;
  told.n_new = static_cast<double>(n_new_tokens);
  told.decode_seconds = std::max(0.0, seconds - told.encode_seconds);
  book(found->second, compressor, told, 1);
  learn_decode(found->second.prompt, compressor, told.n_new, told.n_new - before.n_new,
               told.decode_seconds - before.decode_seconds);
}

// Of an answer that has come to n_new tokens, the last n_more of them.
void WorkEstimate::learn_decode(const Prompt& prompt, int compressor, double n_new, double n_more, double seconds) {
  if (n_more <= 0 || seconds < 0) return;
  const double context = prompt.context + (n_new - n_more / 2) / std::max(1.0, prompt.n_sequences);
  for (auto* rate : {&decode_[compressor], &any_decode_}) rate->add_anew(n_more, context, seconds);
}

void WorkEstimate::ended(int64_t job, int compressor, int64_t n_new_tokens, double seconds, bool is_cut) {
  const auto found = under_way_.find(job);
  if (found == under_way_.end()) return;
  const auto& prompt = found->second.prompt;
  decoded(job, compressor, std::max<int64_t>(1, n_new_tokens), seconds);
  found->second.compressors.erase(compressor);
  if (prompt.forced >= 0) return;
  auto& lengths = lengths_[{prompt.task, compressor}];
  is_cut ? lengths.cut(n_new_tokens) : lengths.ended(n_new_tokens);
  answered_ += static_cast<double>(n_new_tokens), answered_limit_ += prompt.limit;
}

// It took no tokens; that others of its kind will fail, too, is not known.
void WorkEstimate::failed(int64_t job, int compressor) {
  const auto found = under_way_.find(job);
  if (found != under_way_.end()) found->second.compressors.erase(compressor);
}

void WorkEstimate::forget(int64_t job) { under_way_.erase(job); }

void WorkEstimate::learn_prefill(const Prompt& prompt, double seconds) {
  if (prompt.computed > 0) prefill_.add(prompt.computed, mean_context(prompt), seconds);
}

void WorkEstimate::learn(const Prompt& prompt, int compressor, int64_t n_new_tokens, double encode_seconds,
                         double decode_seconds, bool is_cut) {
  UnderWay job;
  job.prompt = prompt;
  const double cost = cost_done_, n_decoded = n_decoded_;
  book(job, compressor, {static_cast<double>(n_new_tokens), encode_seconds, decode_seconds}, 1);
  cost_done_ = cost, n_decoded_ = n_decoded;  // an earlier run's
  learn_decode(prompt, compressor, static_cast<double>(n_new_tokens), static_cast<double>(n_new_tokens),
               decode_seconds);
  if (prompt.forced >= 0) return;
  auto& lengths = lengths_[{prompt.task, compressor}];
  is_cut ? lengths.cut(n_new_tokens) : lengths.ended(n_new_tokens);
  answered_ += static_cast<double>(n_new_tokens), answered_limit_ += prompt.limit;
}

WorkEstimate::Lengths WorkEstimate::lengths() const {
  Lengths lengths;
  for (const auto& [place, seen] : lengths_) {
    lengths.of_task[place.first].add(seen);
    lengths.own[place].add(seen);
  }
  for (const auto& [id, job] : under_way_) {
    if (job.prompt.forced >= 0) continue;
    for (const auto& [compressor, told] : job.compressors) {
      if (told.n_new <= 0) continue;
      lengths.of_task[job.prompt.task].cut(std::llround(told.n_new));
      if (const auto own = lengths.own.find({job.prompt.task, compressor}); own != lengths.own.end()) {
        own->second.cut(std::llround(told.n_new));
      }
    }
  }
  return lengths;
}

// By the compressor's own on that task where enough have ended, else by all of the task.
double WorkEstimate::answer_of(const Lengths& lengths, const Place& place, double so_far, double limit) const {
  const auto ended = lengths_.find(place);
  if (ended != lengths_.end() && ended->second.n() >= kEnoughAnswers) {
    return lengths.own.at(place).expected_more(so_far, limit);
  }
  const auto of_task = lengths.of_task.find(place.first);
  if (of_task != lengths.of_task.end()) return of_task->second.expected_more(so_far, limit);
  if (answered_limit_ <= 0) return AnswerLengths().expected_more(so_far, limit);
  return std::max(0.0, limit * answered_ / answered_limit_ - so_far);  // as the other tasks' of their limits
}

double WorkEstimate::encode_seconds(int compressor, double n_tokens, double n_sequences) const {
  const auto own = encode_.find(compressor);
  const bool is_known = own != encode_.end() && own->second.is_known();
  return (is_known ? own->second : any_encode_).seconds(n_tokens, kThousand * n_sequences);
}

double WorkEstimate::decode_seconds(int compressor, double n_tokens, double sum_context) const {
  const auto own = decode_.find(compressor);
  if (own != decode_.end() && own->second.is_known()) return own->second.seconds(n_tokens, sum_context);
  return (any_decode_.is_known() ? any_decode_ : prefill_).seconds(n_tokens, sum_context);
}

double WorkEstimate::left_of(const Lengths& lengths, const UnderWay& job) const {
  const auto& prompt = job.prompt;
  double left = (1 - job.share) * prefill_.seconds(prompt.computed, prompt.computed * mean_context(prompt));
  for (const auto& [compressor, told] : job.compressors) {
    const double encoded = prompt.context * prompt.n_sequences;
    if (told.encode_seconds <= 0 && told.n_new <= 0) left += encode_seconds(compressor, encoded, prompt.n_sequences);
    const double more = prompt.forced >= 0 ? std::max(0.0, prompt.forced - told.n_new)
                                           : answer_of(lengths, {prompt.task, compressor}, told.n_new, prompt.limit);
    left += decode_seconds(compressor, more,
                           more * (prompt.context + (told.n_new + more / 2) / std::max(1.0, prompt.n_sequences)));
  }
  return left;
}

double WorkEstimate::left_of(const Lengths& lengths, const Place& place, const Answers& a) const {
  double left =
      encode_seconds(place.second, a.prompt, a.n_sequences) + decode_seconds(place.second, a.forced, a.forced_context);
  if (a.n <= 0.5) return left;
  const double n_new = answer_of(lengths, place, 0, a.limit / a.n);
  return left + decode_seconds(place.second, a.n * n_new, n_new * (a.context + a.n * n_new / 2));
}

std::optional<double> WorkEstimate::cost_left() const {
  if (!prefill_.is_known() && !any_decode_.is_known() && !any_encode_.is_known()) return std::nullopt;
  const auto lengths = this->lengths();
  double left = 0;
  for (const auto& [task, prefills] : prefills_) left += prefill_.seconds(prefills.computed, prefills.context);
  for (const auto& [place, answers] : answers_) left += left_of(lengths, place, answers);
  for (const auto& [id, job] : under_way_) left += left_of(lengths, job);
  return left;
}

std::optional<double> WorkEstimate::seconds_left(double seconds_so_far, double n_processes) const {
  const auto left = cost_left();
  if (!left || cost_done_ <= 0) return std::nullopt;
  const double seconds = std::max(0.0, seconds_so_far - warm_seconds_), cost = std::max(0.0, cost_done_ - warm_cost_);
  return *left * (seconds + kPriorSeconds / n_processes) / (cost + kPriorSeconds);
}

}  // namespace kvc
