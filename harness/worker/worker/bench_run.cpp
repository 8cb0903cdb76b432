#include "worker/bench_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "contract/stopwatch.h"
#include "generate/prompt_end.h"
#include "kvc/part_timer.h"
#include "sandbox/audit.h"
#include "sandbox/device_clock.h"
#include "sandbox/private_tokens.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

// One point once. Parts are recorded with one thread only: others' are not heard.
class PointRun {
 public:
  PointRun(BenchBody& body, const Compressor& compressor, const BenchPoint& point, MemoryMeter& meter, bool with_audit,
           bool may_evict, const std::function<void()>& at_step)
      : body_(body),
        compressor_(compressor),
        waits_(waits_for_prompt_end(&compressor)),
        point_(point),
        meter_(meter),
        with_audit_(with_audit),
        at_step_(at_step),
        sequences_(static_cast<size_t>(point.batch)),
        out_(sequences_.size()),
        has_appended_(sequences_.size()) {
    if (at::get_num_threads() == 1) parts_.emplace();
    for (size_t b = 0; b < sequences_.size(); ++b) {
      steps_.push_back({&compressor_, &sequences_[b], meter_.take_account(),
                        [this, b](bool inside) { record_parts(b, inside); }, &out_[b]});
      meter_.share(steps_.back().account, &compressor_);
      out_[b].n_hidden = hidden_of_layers(body.shape(), point.n_prompt_tokens);
    }
    std::random_device random;
    kept_layer_ = static_cast<int64_t>(random() % static_cast<uint32_t>(body.shape().n_layers));
    for (size_t b = 0; with_audit && b < sequences_.size(); ++b) audits_.emplace_back(random(), may_evict);
    for (size_t b = 0; b < audits_.size(); ++b) steps_[b].audit = &audits_[b];
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
    for (size_t b = 0; b < sequences_.size(); ++b) destroy_caches_of(b);
    return std::move(result_);
  }

 private:
  void prefill(size_t b) {
    double cache_seconds = 0;
    const auto start = Clock::now();
    body_.prefill([&](int64_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      synchronize(k.device());
      const auto encode_start = Clock::now();
      auto info = body_.layer_info(layer, b);
      const auto seen = seen_prompt({q, k, v, 0}, info);
      append_prompt(b, info, seen);
      if (with_audit_) start_audit(b, info, seen);
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
        sandboxed_call(meter_, steps_[b].account, CallMode::plain, [&] { finish_prefill(compressor_, sequences_[b]); });
    out_[b].encode_seconds += seconds_since(start);
    KVC_CHECK(error.empty(), error);
    for (size_t layer = 0; layer < last_q_.size(); ++layer) {
      const auto number = static_cast<int64_t>(layer);
      audit_prompt(b, number, number == kept_layer_ ? waiting_.get() : nullptr, last_q_[layer]);
    }
    last_q_.clear();
  }

  void append_prompt(size_t b, const LayerInfo& info, const NewTokens& tokens) {
    at_step_();
    {
      const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
      copies_.copy_in(tokens);
    }
    std::unique_ptr<LayerCache> cache;
    const auto error = sandboxed_call(meter_, steps_[b].account, CallMode::plain, [&] {
      cache = compressor_.make_cache(info);
      has_appended_[b] = false;
      const auto start = Clock::now();
      cache->append(copies_.tokens());
      observe_itself(compressor_, *cache, copies_.tokens());
      synchronize(tokens.k.device());
      out_[b].encode_seconds += seconds_since(start);
      record_parts(b, false);
      copies_.reclaim();
    });
    if (cache) sequences_[b].push_back(std::move(cache));
    copies_.invalidate();
    KVC_CHECK(error.empty(), error);
  }

  // The exact tokens of one layer are kept; the caches of all layers are inspected alike, at the prompt's end if the
  // compressor waits for it.
  void start_audit(size_t b, const LayerInfo& info, const NewTokens& tokens) {
    const MemoryMeter::Scope own_copies(meter_, MemoryMeter::kUnseen);
    const auto prompt = std::make_shared<const AuditedPrompt>(info, tokens.k, tokens.v);
    if (info.layer == kept_layer_) audits_[b].keep(prompt);
    const auto last = tokens.q.narrow(1, tokens.q.size(1) - 1, 1).clone();
    if (waits_) {
      last_q_.push_back(last);
      if (info.layer == kept_layer_) waiting_ = prompt;
    } else {
      audit_prompt(b, info.layer, prompt.get(), last);
    }
  }

  // prompt: null of a layer whose answers are not checked
  void audit_prompt(size_t b, int64_t layer, const AuditedPrompt* prompt, const at::Tensor& q) {
    const auto error = sandboxed_call(meter_, steps_[b].account, CallMode::inspecting, [&] {
      const auto& cache = *sequences_[b][static_cast<size_t>(layer)];
      const auto last = q.to(at::kFloat);
      const auto attention = cache.attend(last, body_.shape().attention_scale);
      const auto answer = ask(cache, last);
      const MemoryMeter::Scope own_work(meter_, MemoryMeter::kUnseen);
      if (prompt) LayerAudit({std::shared_ptr<void>(), prompt}, audits_[b].may_evict()).check(answer, last, attention);
    });
    KVC_CHECK(error.empty(), error);
  }

  void destroy_caches_of(size_t b) {
    const auto error = count_and_destroy_caches(meter_, steps_[b].account, sequences_[b]);
    KVC_CHECK(error.empty(), error);
  }

  double seconds_of_caches() const {
    double sum = 0;
    for (const auto& out : out_) sum += out.encode_seconds + out.attend_seconds;
    return sum;
  }

  void decode(int64_t step) {
    double cache_seconds = 0;
    bool apart = false;
    const double before = seconds_of_caches();
    for (auto& audit : audits_) audit.begin_step();
    const auto start = Clock::now();
    body_.decode_step(step, point_.batch, [&](int64_t layer, auto news, double scale, at::Tensor& attended) {
      const auto begin = Clock::now();
      has_appended_.assign(has_appended_.size(), false);
      at_step_();
      step_caches(steps_, layer, body_.shape().layer(layer).sliding_window, news, scale, meter_, attended);
      cache_seconds += seconds_since(begin);
      apart = works_apart(attended.device());
    });
    if (apart) cache_seconds = seconds_of_caches() - before;
    result_.seconds.other += std::max(0.0, seconds_since(start) - cache_seconds);
    for (const auto& out : out_) KVC_CHECK(out.error.empty(), out.error);
  }

  void split_memory() {
    auto& split = result_.memory;
    split.weights = body_.weights_bytes();
    split.other = body_.input_bytes();
    for (const auto& step : steps_) split.kv += meter_.live_bytes(step.account);
    split.workspace = meter_.peak_of_all() - split.weights - split.kv - split.other;
  }

  // After a sequence's append, then after its attention: the work since the last call.
  void record_parts(size_t b, bool inside) {
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
  bool waits_;  // for the prompt's end
  std::vector<at::Tensor>
      last_q_;  // of each layer of the sequence whose prompt has not ended, where answers are checked
  std::shared_ptr<const AuditedPrompt> waiting_;  // the kept layer's
  BenchPoint point_;
  MemoryMeter& meter_;
  bool with_audit_;
  const std::function<void()>& at_step_;
  PrivateTokens copies_;
  int64_t kept_layer_;         // whose exact tokens are kept
  std::vector<Audit> audits_;  // by sequence; none without
  std::optional<PartTimer> parts_;
  std::vector<SequenceCaches> sequences_;
  std::vector<Generation> out_;
  std::vector<bool> has_appended_;
  std::vector<CacheStep> steps_;
  BenchResult result_;
};

}  // namespace

BenchResult run_bench_point(BenchBody& body, const Compressor& compressor, const BenchPoint& point, MemoryMeter& meter,
                            bool with_audit, const std::function<void()>& at_step, bool may_evict) {
  KVC_CHECK(point.n_prompt_tokens + point.n_new_tokens <= body.max_tokens(), "bench: ", point.n_prompt_tokens, " and ",
            point.n_new_tokens, " new tokens, the model has max_position_embeddings ", body.max_tokens());
  body.prepare(point);
  return PointRun(body, compressor, point, meter, with_audit, may_evict, at_step).run();
}

}  // namespace kvc
