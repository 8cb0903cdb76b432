// How long a run still takes, from what its tokens have taken so far. Arithmetic alone: no clock, no output.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvc {

// Seconds a token, as a line over the tokens that it attends to: long prompts cost more a token than short ones.
class TokenRate {
 public:
  // least_spread: contexts that spread by less say little of the line's slope.
  explicit TokenRate(double least_spread = 200) : least_spread_(least_spread) {}
  // So many tokens took so long, each behind `context` others on average. Negative ones take back what was added.
  void add(double n_tokens, double context, double seconds);
  // The same, and what was added before counts less: the last third of all seconds decides. Batches grow as a run
  // begins, and a step of many sequences costs each of them less.
  void add_anew(double n_tokens, double context, double seconds);
  bool is_known() const { return tokens_ > 0.5; }
  // Of tokens whose contexts add up to `sum_context`.
  double seconds(double n_tokens, double sum_context) const;

 private:
  double least_spread_;
  double tokens_ = 0, context_ = 0, context2_ = 0, seconds_ = 0, context_seconds_ = 0;  // sums over tokens
  double all_seconds_ = 0;
};

// How long answers get, from those that have ended and those that have got so far without.
class AnswerLengths {
 public:
  void ended(int64_t n_tokens) { ++ends_[n_tokens]; }
  void cut(int64_t n_tokens) { ++cuts_[n_tokens]; }  // by a limit, or still under way
  int64_t n() const;
  // Tokens that an answer of so_far tokens still gets, on average, where it has at most `limit`: the Kaplan-Meier
  // curve, and behind the longest seen a constant chance to end, but at most 70 % of what the limit leaves.
  double expected_more(double so_far, double limit) const;
  void add(const AnswerLengths& other);

 private:
  std::map<int64_t, int64_t> ends_, cuts_;  // how many, by tokens
};

class WorkEstimate {
 public:
  // One prompt for some compressors, as it was guessed or as it is.
  struct Prompt {
    size_t task = 0;
    double context = 0;      // tokens of it
    double computed = 0;     // of these, without those that an earlier prompt has brought; several texts in sum
    double n_sequences = 1;  // of each compressor
    double forced = -1;      // tokens that are read behind it by all sequences of a compressor; -1: it is answered
    double limit = 0;        // tokens of an answer at most
  };
  using Compressors = std::vector<int>;

  void plan(const Prompt& prompt, const Compressors& compressors) { count(prompt, compressors, 1); }
  void unplan(const Prompt& prompt, const Compressors& compressors) { count(prompt, compressors, -1); }

  // Of a job that is under way. What is told anew takes the place of what was told before.
  void begin(int64_t job, const Prompt& prompt, const Compressors& compressors);
  void prefilled(int64_t job, double share, double n_tokens, double seconds);
  void decoded(int64_t job, int compressor, int64_t n_new_tokens, double seconds);  // those of 0 tokens: its prompt's
  // is_cut: by a limit. seconds: of prompt and answer together, without the prefill.
  void ended(int64_t job, int compressor, int64_t n_new_tokens, double seconds, bool is_cut);
  void failed(int64_t job, int compressor);
  void forget(int64_t job);  // it is done, or its worker died
  // Of earlier runs: a prompt's prefill, and one compressor's answer to it.
  void learn_prefill(const Prompt& prompt, double seconds);
  void learn(const Prompt& prompt, int compressor, int64_t n_new_tokens, double encode_seconds, double decode_seconds,
             bool is_cut);

  // Measured seconds that are left, of one process without anything beside the tokens; nothing before any token was
  // measured.
  std::optional<double> cost_left() const;
  double cost_done() const { return cost_done_; }
  // What was told until now took so many seconds, and is not like what follows: a first prompt opens and warms all.
  void warmed_up(double seconds_so_far) { warm_seconds_ = seconds_so_far, warm_cost_ = cost_done_; }
  // Seconds that are left, from what a measured second has taken of the clock since; n_processes share the work.
  std::optional<double> seconds_left(double seconds_so_far, double n_processes = 1) const;
  double n_prefilled() const { return n_prefilled_; }  // tokens
  double n_decoded() const { return n_decoded_; }

 private:
  // Prompts that have not begun, of one task.
  struct Prefills {
    double computed = 0, context = 0;  // tokens, and the sum of their contexts
  };
  struct Answers {  // and of one compressor
    double n = 0, limit = 0, prompt = 0, n_sequences = 0, forced = 0, forced_context = 0, context = 0;
  };
  struct OfCompressor {
    double n_new = 0, encode_seconds = 0, decode_seconds = 0;
  };
  struct UnderWay {
    Prompt prompt;
    double share = 0, n_tokens = 0, prefill_seconds = 0;  // as last told
    std::map<int, OfCompressor> compressors;
  };
  using Place = std::pair<size_t, int>;  // task, compressor

  void count(const Prompt& prompt, const Compressors& compressors, double n);
  void book(const UnderWay& job, int compressor, const OfCompressor& told, double sign);
  void learn_decode(const Prompt& prompt, int compressor, double n_new, double n_more, double seconds);

  // Answers that have ended and those under way, by task and by place.
  struct Lengths {
    std::map<size_t, AnswerLengths> of_task;
    std::map<Place, AnswerLengths> own;
  };
  Lengths lengths() const;
  double answer_of(const Lengths& lengths, const Place& place, double so_far, double limit) const;
  double encode_seconds(int compressor, double n_tokens, double n_sequences) const;
  double decode_seconds(int compressor, double n_tokens, double sum_context) const;
  double left_of(const Lengths& lengths, const UnderWay& job) const;
  double left_of(const Lengths& lengths, const Place& place, const Answers& answers) const;

  std::map<size_t, Prefills> prefills_;
  std::map<Place, Answers> answers_;
  std::map<int64_t, UnderWay> under_way_;
  // Of encoding a line over prompts in a thousand tokens: what a prompt costs beside its tokens, which is most of short
  // ones.
  struct EncodeRate : TokenRate {
    EncodeRate() : TokenRate(0) {}
  };
  TokenRate prefill_, any_decode_;
  EncodeRate any_encode_;
  std::map<int, EncodeRate> encode_;
  std::map<int, TokenRate> decode_;
  std::map<Place, AnswerLengths> lengths_;
  double answered_ = 0, answered_limit_ = 0;  // tokens of all answers that ended, and their limits
  double warm_seconds_ = 0, warm_cost_ = 0;
  double cost_done_ = 0, n_prefilled_ = 0, n_decoded_ = 0;
};

}  // namespace kvc
