// The time that a run still takes: tokens left, at the seconds per token measured so far. No clock, no output.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace kvc {

// Seconds per token, as a line over the tokens that it attends to: long prompts cost more per token than short ones.
class TokenRate {
 public:
  // least_spread: contexts that spread by less say little about the line's slope.
  explicit TokenRate(double least_spread) : least_spread_(least_spread) {}
  // context: mean over the tokens. Negative numbers take back what was added.
  void add(double n_tokens, double context, double seconds);
  bool is_known() const { return tokens_ > 0.5; }
  double seconds(double n_tokens, double context) const;

 private:
  double least_spread_;
  double tokens_ = 0, context_ = 0, context2_ = 0, seconds_ = 0, context_seconds_ = 0;  // sums over tokens
};

class WorkEstimate {
 public:
  static constexpr int kPrefill = -1;  // in a compressor's place: the prompt itself, computed once for all of them
  // One prompt for some compressors, as guessed or as it is.
  struct Prompt {
    size_t task = 0;
    double context = 0;      // its tokens
    double computed = 0;     // of these, without those shared with an earlier prompt; several texts summed
    double n_sequences = 1;  // of each compressor
    double forced = -1;      // tokens read after it by all sequences of a compressor; -1: it is answered
    double limit = 0;        // tokens of an answer at most
  };
  struct Left {
    double tokens = 0, seconds = 0;  // seconds as measured, of one process
    void add(const Left& other, double times = 1) { tokens += times * other.tokens, seconds += times * other.seconds; }
  };

  // unseen_share: of its limit that an answer is expected to get before any answer has ended.
  explicit WorkEstimate(double unseen_share = 1) : unseen_share_(unseen_share) {}

  void plan(const Prompt& prompt, const std::vector<int>& compressors, double times = 1);  // -1 takes it back
  // The last n_more of n_done tokens, prefilled or decoded. Before them a compressor has encoded the prompt.
  void measured(const Prompt& prompt, int compressor, double n_done, double n_more, double seconds);
  void encoded(const Prompt& prompt, int compressor, double seconds);
  void answered(const Prompt& prompt, int compressor, double n_new);  // to its end

  double tokens_done() const { return tokens_done_; }
  Left left_of(const Prompt& prompt, int compressor, double n_done = 0, bool is_encoded = false) const;
  Left planned() const;
  // Seconds of the clock, if they go on as for what was measured; nothing before that.
  std::optional<double> seconds_left(const Left& left, double seconds_so_far, double n_processes = 1) const;

 private:
  using Place = std::pair<size_t, int>;  // task, compressor
  struct Planned {
    double n = 0;
    Prompt sum{.n_sequences = 0, .forced = 0};
  };
  struct Rates {  // of each compressor; of one without, those of all, then the prefill's
    double least_spread;
    TokenRate any{least_spread};
    std::map<int, TokenRate> own = {};
    void add(int compressor, double n_tokens, double context, double seconds);
    double seconds(int compressor, double n_tokens, double context) const;
  };
  struct Lengths {
    double n = 0, tokens = 0, limits = 0;
  };
  double expected_tokens(const Prompt& prompt, int compressor) const;

  double unseen_share_;
  std::map<Place, Planned> planned_;
  Rates rates_{200}, encode_{0};
  std::map<Place, Lengths> lengths_;  // of a task's answers also together, and of all
  double tokens_done_ = 0, seconds_done_ = 0;
};

}  // namespace kvc
