#include "kvc/joint_prefill.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kvc {

JointPrefill::~JointPrefill() = default;

void observe_itself(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt) {
  const auto* pass = dynamic_cast<const ObservationPass*>(&compressor);
  if (!pass) return;
  const int64_t n = prompt.k.size(1), step = pass->observation().chunk_tokens;
  for (int64_t first = 0; first < n; first += step) {
    const int64_t n_chunk = std::min(step, n - first);
    const auto of_chunk = [&](const at::Tensor& x) { return x.defined() ? x.narrow(1, first, n_chunk) : x; };
    pass->observe(cache, {of_chunk(prompt.q), of_chunk(prompt.k), prompt.k, first, n_chunk});
  }
}

void finish_prefill(const Compressor& compressor, std::span<LayerCache* const> caches) {
  if (const auto* joint = dynamic_cast<const JointPrefill*>(&compressor)) joint->finish_prefill(caches);
}

void finish_prefill(const Compressor& compressor, std::span<const std::unique_ptr<LayerCache>> caches) {
  std::vector<LayerCache*> all;
  for (const auto& cache : caches) all.push_back(cache.get());
  finish_prefill(compressor, all);
}

void append_prompt_alone(const Compressor& compressor, LayerCache& cache, const NewTokens& prompt) {
  cache.append(prompt);
  observe_itself(compressor, cache, prompt);
  finish_prefill(compressor, std::to_array({&cache}));
}

}  // namespace kvc
