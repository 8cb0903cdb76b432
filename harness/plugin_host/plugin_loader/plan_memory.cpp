#include "plugin_loader/plan_memory.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "kvc/joint_prefill.h"
#include "plugin_loader/normal_tokens.h"

namespace kvc {
namespace {

constexpr uint64_t kSeed = 1;

NewTokens random_tokens(const ModelShape& model, int64_t n_tokens, int64_t first_position) {
  auto generator = at::detail::createCPUGenerator(kSeed + static_cast<uint64_t>(first_position));
  auto tokens = normal_tokens(model, n_tokens, generator);
  tokens.first_position = first_position;
  return tokens;
}

std::unique_ptr<LayerCache> prompted_cache(const Compressor& compressor, const ModelShape& model, int64_t layer,
                                           int64_t n_tokens) {
  // Bytes do not depend on the frequencies: all turn alike.
  static const std::vector<float> frequencies(4096, 0.01f);
  const auto n_pairs = static_cast<size_t>(model.n_rotated_channels / 2);
  const auto rope =
      model.has_rope ? std::span(frequencies).first(std::min(n_pairs, frequencies.size())) : std::span<const float>();
  auto cache = compressor.make_cache(layer_info(model, layer, kSeed, rope));
  append_prompt_alone(compressor, *cache, random_tokens(model, n_tokens, 0));
  return cache;
}

double held_bytes(const LayerCache& cache) { return static_cast<double>(cache.footprint().total_bytes()); }

// Methods single out the first layers, the last ones, or both.
template <class F>
bool layers_differ(const ModelShape& model, double of_first, F of_layer) {
  return of_layer(model.n_layers / 2) != of_first || of_layer(model.n_layers - 1) != of_first;
}

}  // namespace

CacheLine measure_cache(const Compressor& compressor, const ModelShape& model) {
  const auto [shorter, longer] = kMeasuredTokens;
  const auto n_layers = static_cast<double>(model.n_layers);
  const auto cache = prompted_cache(compressor, model, 0, shorter);
  const double held = held_bytes(*cache);
  CacheLine line;
  line.bytes_per_token = n_layers * (held_bytes(*prompted_cache(compressor, model, 0, longer)) - held) /
                         static_cast<double>(longer - shorter);
  line.fixed_bytes = n_layers * held - line.bytes_per_token * static_cast<double>(shorter);
  const double checked = n_layers * held_bytes(*prompted_cache(compressor, model, 0, kCheckedTokens));
  line.misfit = (checked - line.bytes(kCheckedTokens)) / checked;
  line.layers_differ = layers_differ(model, held, [&, n = shorter](int64_t layer) {
    return held_bytes(*prompted_cache(compressor, model, layer, n));
  });
  for (int64_t step = 0; step < kMeasuredSteps; ++step) cache->append(random_tokens(model, 1, shorter + step));
  line.bytes_per_step = n_layers * (held_bytes(*cache) - held) / static_cast<double>(kMeasuredSteps);
  return line;
}

double prompt_bytes(const Compressor& compressor, const ModelShape& model, int64_t n_tokens) {
  const auto of_layer = [&](int64_t layer) { return held_bytes(*prompted_cache(compressor, model, layer, n_tokens)); };
  const double first = of_layer(0);
  if (model.n_layers == 1 || !layers_differ(model, first, of_layer)) return static_cast<double>(model.n_layers) * first;
  double sum = 0;
  for (int64_t layer = 0; layer < model.n_layers; ++layer) sum += of_layer(layer);
  return sum;
}

std::optional<int64_t> largest_context(const CacheLine& line, double bytes) {
  if (bytes < line.fixed_bytes) return 0;
  if (line.bytes_per_token <= 0) return std::nullopt;
  return static_cast<int64_t>(std::floor((bytes - line.fixed_bytes) / line.bytes_per_token));
}

int64_t largest_batch(const CacheLine& line, double bytes, int64_t n_tokens) {
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor(bytes / line.bytes(n_tokens))));
}

}  // namespace kvc
