#include "generate/batch_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <map>

#include "generate/thrown.h"
#include "record/stopwatch.h"

namespace kvc {
namespace {

// Runs the compressor's code on the sequence's account; what it throws is the sequence's error.
template <class Body>
void inside(const CacheStep& step, MemoryMeter& meter, const Body& body) {
  const MemoryMeter::Scope scope(meter, step.account);
  step.entering(true);
  try {
    body();
  } catch (...) {
    step.out->error = thrown();
  }
  step.entering(false);
}

// -> seconds
double attend_alone(const CacheStep& step, int64_t layer, const NewTokens& tokens, double scale, MemoryMeter& meter,
                    at::Tensor attended) {
  const auto start = Clock::now();
  inside(step, meter, [&] {
    const auto out = (*step.caches)[static_cast<size_t>(layer)]->attend(tokens.q, scale);
    KVC_CHECK(out.defined(), "attend gave no tensor");
    KVC_CHECK(out.sizes() == tokens.q.sizes() && out.device() == tokens.q.device(), "attend gave sizes ", out.sizes(),
              " on ", out.device(), ", expected ", tokens.q.sizes(), " on ", tokens.q.device());
    attended.copy_(out.squeeze(1));
  });
  return seconds_since(start);
}

// The sequences `members` of one compressor. Their queries and outputs are brought together, which copies a few rows.
void attend_together(const BatchedAttention& compressor, std::span<const CacheStep> steps,
                     const std::vector<int64_t>& members, int64_t layer, std::span<const NewTokens> tokens,
                     double scale, at::Tensor& attended) {
  std::vector<const LayerCache*> caches;
  std::vector<at::Tensor> q;
  for (const int64_t b : members) {
    caches.push_back((*steps[static_cast<size_t>(b)].caches)[static_cast<size_t>(layer)].get());
    q.push_back(tokens[static_cast<size_t>(b)].q);
  }
  const auto n = static_cast<int64_t>(members.size());
  steps[static_cast<size_t>(members[0])].entering(true);
  try {
    if (n == attended.size(0)) {
      compressor.attend_batch(caches, q, scale, attended);
    } else {
      auto out = at::empty({n, attended.size(1), attended.size(2)}, attended.options());
      compressor.attend_batch(caches, q, scale, out);
      for (int64_t i = 0; i < n; ++i) attended[members[static_cast<size_t>(i)]].copy_(out[i]);
    }
  } catch (...) {
    for (const int64_t b : members) steps[static_cast<size_t>(b)].out->error = thrown();
  }
  steps[static_cast<size_t>(members[0])].entering(false);
}

}  // namespace

void step_caches(std::span<const CacheStep> steps, int64_t layer, std::span<const NewTokens> tokens, double scale,
                 MemoryMeter& meter, at::Tensor& attended) {
  std::vector<int64_t> alone;
  std::map<const Compressor*, std::vector<int64_t>> together;
  for (size_t b = 0; b < steps.size(); ++b) {
    const auto& step = steps[b];
    if (step.out->error.empty()) {
      const auto start = Clock::now();
      inside(step, meter, [&] { (*step.caches)[static_cast<size_t>(layer)]->append(tokens[b]); });
      step.out->encode_seconds += seconds_since(start);
    }
    if (!step.out->error.empty()) {
      attended[static_cast<int64_t>(b)].zero_();
    } else if (dynamic_cast<const BatchedAttention*>(step.compressor)) {
      together[step.compressor].push_back(static_cast<int64_t>(b));
    } else {
      alone.push_back(static_cast<int64_t>(b));
    }
  }
  for (const auto& [compressor, members] : together) {
    const auto start = Clock::now();
    attend_together(dynamic_cast<const BatchedAttention&>(*compressor), steps, members, layer, tokens, scale, attended);
    const double share = seconds_since(start) / static_cast<double>(members.size());
    for (const int64_t b : members) steps[static_cast<size_t>(b)].out->attend_seconds += share;
  }
  if (alone.empty()) return;

  // Their times overlap: each gets the part of the whole that its own time has in the sum.
  const auto start = Clock::now();
  const auto n = static_cast<int64_t>(alone.size());
  std::vector<double> seconds(alone.size());
  const auto run = [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;  // a thread's own setting
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = alone[static_cast<size_t>(i)];
      seconds[static_cast<size_t>(i)] =
          attend_alone(steps[static_cast<size_t>(b)], layer, tokens[static_cast<size_t>(b)], scale, meter, attended[b]);
    }
  };
  if (n == 1) {
    run(0, 1);  // not inside a parallel region: the cache may use all threads
  } else {
    at::parallel_for(0, n, 1, run);
  }
  const double whole = seconds_since(start);
  double sum = 0;
  for (const double s : seconds) sum += s;
  for (size_t i = 0; i < alone.size(); ++i) {
    steps[static_cast<size_t>(alone[i])].out->attend_seconds += sum > 0 ? whole * seconds[i] / sum : 0;
  }
}

}  // namespace kvc
