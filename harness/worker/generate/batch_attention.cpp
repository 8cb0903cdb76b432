#include "generate/batch_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <map>
#include <optional>

#include "contract/stopwatch.h"
#include "hosted/hosted_cache.h"
#include "hosted/hosted_steps.h"
#include "sandbox/device_writes.h"
#include "sandbox/sandboxed_call.h"

namespace kvc {
namespace {

// Runs the compressor's code; what comes of it is the sequence's error.
template <class Body>
void inside(const CacheStep& step, MemoryMeter& meter, CallMode mode, const Body& body) {
  step.entering(true);
  step.out->error = sandboxed_call(meter, step.account, mode, body);
  step.entering(false);
}

// What was asked of the device between two marks counts as the sequence's; where the device works apart, once it is
// done.
void add_time(CacheStep& step, double Generation::*seconds, const DeviceMark& from, const DeviceMark& to,
              double share = 1) {
  if (from.is_apart()) {
    step.spans.push_back({from, to, seconds, share});
  } else {
    step.out->*seconds += share * from.seconds_to(to);
  }
}

void lend(CacheStep& step, int64_t layer, NewTokens token, MemoryMeter& meter) {
  token.first_position -= step.out->n_hidden.at(static_cast<size_t>(layer));
  std::optional<MemoryMeter::Scope> own_copies;
  if (!step.copies.has_room(token)) own_copies.emplace(meter, MemoryMeter::kUnseen);
  step.copies.copy_in(token);
}

void append(CacheStep& step, int64_t layer, at::Device device, MemoryMeter& meter) {
  const DeviceMark start(device);
  inside(step, meter, CallMode::plain, [&] {
    const ValueChecks::Collecting later(step.checks);
    (*step.caches)[static_cast<size_t>(layer)]->append(step.copies.tokens());
  });
  add_time(step, &Generation::encode_seconds, start, DeviceMark(device));
}

// What was recorded of these sequences. On a device their copies, what they store and what overwrites the copies are one
// launch each.
void write(std::optional<StepWrites>& writes, std::span<CacheStep> steps, const std::vector<int64_t>& members,
           double Generation::*seconds, at::Device device, MemoryMeter& meter) {
  if (!writes) return;
  const DeviceMark start(device);
  const auto error = sandboxed_call(meter, MemoryMeter::kModel, CallMode::plain, [&] { writes->run(); });
  const DeviceMark end(device);
  for (const int64_t b : members) {
    auto& step = steps[static_cast<size_t>(b)];
    if (step.out->error.empty()) step.out->error = error;
    if (seconds) add_time(step, seconds, start, end, 1 / static_cast<double>(members.size()));
  }
}

void append_all(std::span<CacheStep> steps, const std::vector<int64_t>& members, int64_t layer,
                std::span<const NewTokens> tokens, at::Device device, MemoryMeter& meter) {
  std::optional<StepWrites> writes;
  if (!device.is_cpu() && !members.empty()) {
    const MemoryMeter::Scope ours(meter, MemoryMeter::kModel);
    writes.emplace(device, static_cast<int64_t>(members.size()), launch_of_writes(device));
  }
  for (const int64_t b : members) lend(steps[static_cast<size_t>(b)], layer, tokens[static_cast<size_t>(b)], meter);
  write(writes, steps, members, nullptr, device, meter);
  for (const int64_t b : members) {
    if (auto& step = steps[static_cast<size_t>(b)]; step.out->error.empty()) append(step, layer, device, meter);
  }
  write(writes, steps, members, &Generation::encode_seconds, device, meter);
  for (const int64_t b : members) {
    auto& step = steps[static_cast<size_t>(b)];
    if (step.out->error.empty()) inside(step, meter, CallMode::plain, [&] { step.copies.reclaim(); });
    step.copies.invalidate();
  }
  write(writes, steps, members, nullptr, device, meter);
}

// -> seconds
double attend_alone(const CacheStep& step, int64_t layer, double scale, MemoryMeter& meter, CallMode mode,
                    at::Tensor attended) {
  const auto start = Clock::now();
  inside(step, meter, mode, [&] {
    const auto& q = step.copies.tokens().q;
    const auto out = (*step.caches)[static_cast<size_t>(layer)]->attend(q, scale);
    check_attention(out, q);
    attended.copy_(out.squeeze(1));
  });
  return seconds_since(start);
}

// Each on its own, spread over the threads, but for a device that works apart, which one thread keeps busy. Their times
// overlap: each gets the part of the whole that its own time has in the sum.
void attend_alone(std::span<CacheStep> steps, const std::vector<int64_t>& members, int64_t layer, double scale,
                  MemoryMeter& meter, at::Tensor& attended) {
  const DeviceMark start(attended.device());
  const auto n = static_cast<int64_t>(members.size());
  std::vector<double> seconds(members.size());
  const auto run = [&](int64_t begin, int64_t end, CallMode mode) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;  // a thread's own setting
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = members[static_cast<size_t>(i)];
      seconds[static_cast<size_t>(i)] =
          attend_alone(steps[static_cast<size_t>(b)], layer, scale, meter, mode, attended[b]);
    }
  };
  if (n == 1 || works_apart(attended.device())) {
    run(0, n, CallMode::plain);  // not inside a parallel region: the cache may use all threads
  } else {
    const HostState before;
    at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
      const MemoryMeter::Scope ours(meter,
                                    MemoryMeter::kModel);  // whatever account the first thread's sequence has open
      run(begin, end, CallMode::parallel);
    });
    // A compressor changed settings that all of them use: once more, one after the other, so that only it fails.
    if (!before.put_back().empty()) run(0, n, CallMode::plain);
  }
  const DeviceMark end(attended.device());
  double sum = 0;
  for (const double s : seconds) sum += s;
  for (size_t i = 0; i < members.size(); ++i) {
    add_time(steps[static_cast<size_t>(members[i])], &Generation::attend_seconds, start, end,
             sum > 0 ? seconds[i] / sum : 0);
  }
}

// The sequences `members` of one compressor. Their queries and outputs are brought together, which copies a few rows.
void attend_together(const BatchedAttention& compressor, std::span<CacheStep> steps,
                     const std::vector<int64_t>& members, int64_t layer, double scale, MemoryMeter& meter,
                     at::Tensor& attended) {
  std::vector<const LayerCache*> caches;
  std::vector<at::Tensor> q;
  for (const int64_t b : members) {
    caches.push_back((*steps[static_cast<size_t>(b)].caches)[static_cast<size_t>(layer)].get());
    q.push_back(steps[static_cast<size_t>(b)].copies.tokens().q);
  }
  const auto n = static_cast<int64_t>(members.size());
  const bool in_a_row = members.back() - members.front() + 1 == n;
  auto out = in_a_row ? attended.narrow(0, members.front(), n)
                      : at::empty({n, attended.size(1), attended.size(2)}, attended.options());
  const auto& first = steps[static_cast<size_t>(members[0])];
  first.entering(true);
  const auto error = sandboxed_call(meter, MemoryMeter::kModel, CallMode::plain, [&] {  // of no sequence alone
    compressor.attend_batch(caches, q, scale, out);
    for (int64_t i = 0; i < n && !in_a_row; ++i) attended[members[static_cast<size_t>(i)]].copy_(out[i]);
  });
  first.entering(false);
  if (!error.empty())
    attend_alone(steps, members, layer, scale, meter, attended);  // so that an error fails its own sequence alone
}

// The same calls in each layer, whether its exact tokens are kept or not.
void inspect(CacheStep& step, int64_t layer, const NewTokens& token, MemoryMeter& meter, const at::Tensor& attention) {
  {
    const MemoryMeter::Scope own_copies(meter, MemoryMeter::kUnseen);
    step.audit->add(layer, token);
  }
  if (!step.audit->inspects()) return;
  inside(step, meter, CallMode::inspecting, [&] {
    const auto answer = ask(*(*step.caches)[static_cast<size_t>(layer)], step.copies.tokens().q);
    const MemoryMeter::Scope own_copies(meter, MemoryMeter::kUnseen);
    step.audit->take(layer, answer, token.q, attention);
  });
}

// Of all sequences at once: the device is waited for once a step.
void read_checks(std::span<CacheStep> steps, MemoryMeter& meter) {
  const MemoryMeter::Scope ours(meter, MemoryMeter::kModel);
  std::vector<ValueChecks*> checks;
  for (auto& step : steps) {
    if (step.out->error.empty()) checks.push_back(&step.checks);
  }
  ValueChecks::read(checks);
}

void settle(CacheStep& step, MemoryMeter& meter) {
  inside(step, meter, CallMode::plain, [&] { step.checks.settle(); });
  for (const auto& span : step.spans) step.out->*span.seconds += span.share * span.from.seconds_to(span.to);
  step.spans.clear();
  if (!step.audit || !step.out->error.empty()) return;
  const MemoryMeter::Scope own_copies(meter, MemoryMeter::kUnseen);
  try {
    step.audit->settle();
  } catch (...) {
    step.out->error = thrown();
  }
}

// What runs in a process of its own gets no more than a copy in any case.
bool add_hosted(HostedSteps& hosted, CacheStep& step, size_t member, int64_t layer, NewTokens token,
                MemoryMeter& meter) {
  auto& cache = *(*step.caches)[static_cast<size_t>(layer)];
  auto process = process_with_steps(cache);
  if (!process) return false;
  token.first_position -= step.out->n_hidden.at(static_cast<size_t>(layer));
  const MemoryMeter::Scope own_copies(meter, MemoryMeter::kUnseen);
  hosted.add(std::move(process), member, cache, step.copies.copy_in(token));
  return true;
}

void run_hosted(HostedSteps& hosted, std::span<CacheStep> steps, double scale, at::Tensor& attended) {
  if (hosted.empty()) return;
  const auto& first = steps[hosted.first_member()];
  first.entering(true);
  for (const auto& [member, error, encode_seconds, attend_seconds] : hosted.run(scale, attended)) {
    steps[member].out->error = error;
    steps[member].out->encode_seconds += encode_seconds;
    steps[member].out->attend_seconds += attend_seconds;
  }
  first.entering(false);
}

bool attends_together(const CacheStep& step, at::Device device) {
  const auto* compressor = dynamic_cast<const BatchedAttention*>(step.compressor);
  return compressor && compressor->attends_together(device);
}

}  // namespace

void drop_hidden_tokens(const CacheStep& step, int64_t layer, int64_t sliding_window, int64_t position,
                        MemoryMeter& meter) {
  if (sliding_window == 0) return;
  auto& n_hidden = step.out->n_hidden.at(static_cast<size_t>(layer));
  int64_t n_dropped = 0;
  inside(step, meter, CallMode::plain, [&] {
    n_dropped = drop_hidden(*(*step.caches)[static_cast<size_t>(layer)], sliding_window, position - n_hidden);
  });
  n_hidden += n_dropped;
  if (step.audit) step.audit->drop(layer, n_dropped);
}

std::vector<int64_t> hidden_of_layers(const ModelShape& model, int64_t n_tokens) {
  std::vector<int64_t> n_hidden;
  for (int64_t layer = 0; layer < model.n_layers; ++layer) {
    n_hidden.push_back(n_hidden_tokens(model.layer(layer).sliding_window, n_tokens));
  }
  return n_hidden;
}

void step_caches(std::span<CacheStep> steps, int64_t layer, int64_t sliding_window, std::span<const NewTokens> tokens,
                 double scale, MemoryMeter& meter, at::Tensor& attended) {
  std::vector<int64_t> here, alone;
  std::map<const Compressor*, std::vector<int64_t>> together;
  HostedSteps hosted;
  for (size_t b = 0; b < steps.size(); ++b) {
    auto& step = steps[b];
    if (step.out->error.empty()) {
      drop_hidden_tokens(step, layer, sliding_window, tokens[b].first_position, meter);
    }
    if (step.out->error.empty() && add_hosted(hosted, step, b, layer, tokens[b], meter)) continue;
    here.push_back(static_cast<int64_t>(b));
  }
  std::erase_if(here, [&](int64_t b) {
    if (steps[static_cast<size_t>(b)].out->error.empty()) return false;
    attended[b].zero_();
    return true;
  });
  append_all(steps, here, layer, tokens, attended.device(), meter);
  for (const int64_t b : here) {
    auto& step = steps[static_cast<size_t>(b)];
    if (!step.out->error.empty()) {
      attended[b].zero_();
    } else if (attends_together(step, attended.device())) {
      together[step.compressor].push_back(b);
    } else {
      alone.push_back(b);
    }
  }
  run_hosted(hosted, steps, scale, attended);
  for (const auto& [compressor, members] : together) {
    const DeviceMark start(attended.device());
    attend_together(dynamic_cast<const BatchedAttention&>(*compressor), steps, members, layer, scale, meter, attended);
    const DeviceMark end(attended.device());
    const double share = 1 / static_cast<double>(members.size());
    for (const int64_t b : members) {
      add_time(steps[static_cast<size_t>(b)], &Generation::attend_seconds, start, end, share);
    }
  }
  if (!alone.empty()) attend_alone(steps, alone, layer, scale, meter, attended);
  if (layer + 1 == static_cast<int64_t>(steps.front().caches->size())) read_checks(steps, meter);
  for (size_t b = 0; b < steps.size(); ++b) {
    auto& step = steps[b];
    if (step.audit && step.out->error.empty()) {
      inspect(step, layer, tokens[b], meter, attended[static_cast<int64_t>(b)]);
    }
    const bool ends = layer + 1 == static_cast<int64_t>(step.caches->size());
    if (ends && step.out->error.empty()) settle(step, meter);
  }
}

}  // namespace kvc
