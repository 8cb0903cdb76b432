#include "worker/bench_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <optional>

#include "contract/stopwatch.h"
#include "generate/prompt_end.h"
#include "kvc/part_timer.h"
#include "sandbox/guest.h"
#include "sandbox/private_tokens.h"
#include "sandbox/watch.h"

namespace kvc {
namespace {

// One point once. Parts are booked with one thread only: others' are not heard.
class PointRun {
 public:
  PointRun(BenchBody& body, const Compressor& compressor, const BenchPoint& point, MemoryMeter& meter, bool watches,
           const std::function<void()>& at_step)
      : body_(body),
        compressor_(compressor),
        waits_(waits_for_prompt_end(&compressor)),
        point_(point),
        meter_(meter),
        watches_(watches),
        at_step_(at_step),
        sequences_(static_cast<size_t>(point.batch)),
        out_(sequences_.size()),
        has_appended_(sequences_.size()) {
    if (at::get_num_threads() == 1) parts_.emplace();
    for (size_t b = 0; b < sequences_.size(); ++b) {
      steps_.push_back({&compressor_, &sequences_[b], meter_.take_account(),
                        [this, b](bool inside) { book_parts(b, inside); }, &out_[b]});
      meter_.share(steps_.back().account, &compressor_);
      watched_.emplace_back();
    }
  }

  BenchResult run() {
    meter_.reset_all();
    for (size_t b = 0; b < sequences_.size(); ++b) prefill(b);
    for (int64_t step = 0; step < point_.n_new_tokens; ++step) decode(step);
    for (const auto& out : out_) {
      KVC_CHECK(out.error.empty(), out.error);
      result_.seconds.encode += out.encode_seconds;
      result_.seconds.attend += out.attend_seconds;
    }
    split_memory();
    for (size_t b = 0; b < sequences_.size(); ++b) let_go_of(b);
    return std::move(result_);
  }

 private:
  void prefill(size_t b) {
    double cache_seconds = 0;
    const auto start = Clock::now();
    body_.prefill([&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      const auto encode_start = Clock::now();
      append_prompt(b, body_.layer_info(layer, b), {q, k, v, 0});
      if (watches_ && layer == 0) watch_prompt(b, body_.layer_info(layer, b), {q, k, v, 0});
      cache_seconds += seconds_since(encode_start);
    });
    result_.seconds.prefill += seconds_since(start) - cache_seconds;
    end_prompt(b);
  }

  // Its prompt is drawn, and observes itself: no pass is timed.
  void end_prompt(size_t b) {
    if (!waits_) return;
    const auto start = Clock::now();
    const auto error =
        as_guest(meter_, steps_[b].account, Visit::plain, [&] { finish_prefill(compressor_, sequences_[b]); });
    out_[b].encode_seconds += seconds_since(start);
    KVC_CHECK(error.empty(), error);
    if (watched_[b]) look_at_watched(b, last_q_);
  }

  void append_prompt(size_t b, const LayerInfo& info, const NewTokens& tokens) {
    at_step_();
    {
      const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
      lent_.lend(tokens);
    }
    std::unique_ptr<LayerCache> cache;
    const auto error = as_guest(meter_, steps_[b].account, Visit::plain, [&] {
      cache = compressor_.make_cache(info);
      has_appended_[b] = false;
      const auto start = Clock::now();
      cache->append(lent_.tokens());
      observe_itself(compressor_, *cache, lent_.tokens());
      out_[b].encode_seconds += seconds_since(start);
      book_parts(b, false);
      lent_.take_back();
    });
    if (cache) sequences_[b].push_back(std::move(cache));
    lent_.poison();
    KVC_CHECK(error.empty(), error);
  }

  void watch_prompt(size_t b, const LayerInfo& info, const NewTokens& tokens) {
    {
      const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
      watched_[b].emplace(std::make_shared<WatchedPrompt>(info, tokens.k, tokens.v), static_cast<uint32_t>(b));
    }
    steps_[b].watches = {&*watched_[b], 1};
    if (waits_) {
      const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
      last_q_ = tokens.q.narrow(1, tokens.q.size(1) - 1, 1).clone();
    } else {
      look_at_watched(b, tokens.q);
    }
  }

  void look_at_watched(size_t b, const at::Tensor& q) {
    const auto error = as_guest(meter_, steps_[b].account, Visit::looking,
                                [&] { watched_[b]->look_at_prompt(*sequences_[b].front(), q); });
    KVC_CHECK(error.empty(), error);
  }

  void let_go_of(size_t b) {
    const auto error = count_and_let_go(meter_, steps_[b].account, sequences_[b]);
    KVC_CHECK(error.empty(), error);
  }

  void decode(int64_t step) {
    double cache_seconds = 0;
    const auto start = Clock::now();
    body_.decode_step(step, point_.batch, [&](int64_t layer, auto news, double scale, at::Tensor& attended) {
      const auto begin = Clock::now();
      has_appended_.assign(has_appended_.size(), false);
      at_step_();
      step_caches(steps_, layer, news, scale, meter_, attended);
      cache_seconds += seconds_since(begin);
    });
    result_.seconds.other += seconds_since(start) - cache_seconds;
    for (const auto& out : out_) KVC_CHECK(out.error.empty(), out.error);
  }

  void split_memory() {
    auto& split = result_.memory;
    split.weights = body_.weights_bytes();
    split.other = body_.input_bytes();
    for (const auto& step : steps_) split.kv += meter_.live_bytes(step.account);
    split.workspace = meter_.peak_of_all() - split.weights - split.kv - split.other;
  }

  // Behind a sequence's append, then behind its attention: what was worked on since the last.
  void book_parts(size_t b, bool inside) {
    if (!parts_ || inside) return;
    auto& seconds = has_appended_[b] ? result_.seconds.attend_parts : result_.seconds.encode_parts;
    for (const auto part : kWorkParts) {
      if (parts_->seconds(part) > 0) seconds[to_string(part)] += parts_->seconds(part);
    }
    parts_->reset();
    has_appended_[b] = true;
  }

  BenchBody& body_;
  const Compressor& compressor_;
  bool waits_;         // for the prompt's end
  at::Tensor last_q_;  // of the watched layer of the sequence whose prompt has not ended
  BenchPoint point_;
  MemoryMeter& meter_;
  bool watches_;
  const std::function<void()>& at_step_;
  PrivateTokens lent_;
  std::vector<std::optional<Watch>> watched_;  // by sequence
  std::optional<PartTimer> parts_;
  std::vector<SequenceCaches> sequences_;
  std::vector<Generation> out_;
  std::vector<bool> has_appended_;
  std::vector<CacheStep> steps_;
  BenchResult result_;
};

}  // namespace

BenchResult run_bench_point(BenchBody& body, const Compressor& compressor, const BenchPoint& point, MemoryMeter& meter,
                            bool watches, const std::function<void()>& at_step) {
  KVC_CHECK(point.n_prompt_tokens + point.n_new_tokens <= body.max_tokens(), "bench: ", point.n_prompt_tokens, " and ",
            point.n_new_tokens, " new tokens, the model has max_position_embeddings ", body.max_tokens());
  body.prepare(point);
  return PointRun(body, compressor, point, meter, watches, at_step).run();
}

}  // namespace kvc
