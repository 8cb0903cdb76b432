#include "plugin_loader/plan_memory.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
  auto info = layer_info(model, layer, kSeed, rope);
  const auto seen = seen_prompt(random_tokens(model, n_tokens, 0), info);
  auto cache = compressor.make_cache(info);
  append_prompt_alone(compressor, *cache, seen);
  return cache;
}

double held_bytes(const LayerCache& cache) { return static_cast<double>(cache.footprint().total_bytes()); }

// Layers of one shape.
struct Kind {
  std::vector<int64_t> layers;
  double n() const { return static_cast<double>(layers.size()); }
};

std::vector<Kind> kinds_of(const ModelShape& model) {
  std::vector<Kind> kinds;
  for (int64_t layer = 0; layer < model.n_layers; ++layer) {
    const auto like = std::ranges::find_if(
        kinds, [&](const Kind& kind) { return model.layer(kind.layers.front()) == model.layer(layer); });
    (like == kinds.end() ? kinds.emplace_back() : *like).layers.push_back(layer);
  }
  return kinds;
}

// Methods single out the first layers, the last ones, or both.
template <class F>
bool layers_differ(const Kind& kind, double of_first, F of_layer) {
  return of_layer(kind.layers[kind.layers.size() / 2]) != of_first || of_layer(kind.layers.back()) != of_first;
}

// Decode steps after a prompt of n tokens, and what they add.
double growth(LayerCache& cache, const ModelShape& model, int64_t sliding_window, int64_t n) {
  int64_t n_held = n - n_hidden_tokens(sliding_window, n);
  const double before = held_bytes(cache);
  for (int64_t step = 0; step < kMeasuredSteps; ++step, ++n_held) {
    n_held -= drop_hidden(cache, sliding_window, n_held);
    cache.append(random_tokens(model, 1, n_held));
  }
  return held_bytes(cache) - before;
}

}  // namespace

CacheLine measure_cache(const Compressor& compressor, const ModelShape& model) {
  const auto [shorter, longer] = kMeasuredTokens;
  CacheLine line;
  double of_shorter = 0, of_longer = 0, of_checked = 0;
  for (const auto& kind : kinds_of(model)) {
    const int64_t first = kind.layers.front();
    const auto held_by = [&](int64_t layer, int64_t n) {
      return held_bytes(*prompted_cache(compressor, model, layer, n));
    };
    const auto cache = prompted_cache(compressor, model, first, shorter);
    const double held = held_bytes(*cache);
    of_shorter += kind.n() * held;
    of_longer += kind.n() * held_by(first, longer);
    of_checked += kind.n() * held_by(first, kCheckedTokens);
    line.layers_differ |= layers_differ(kind, held, [&, n = shorter](int64_t layer) { return held_by(layer, n); });
    line.bytes_per_step += kind.n() * growth(*cache, model, model.layer(first).sliding_window, shorter) /
                           static_cast<double>(kMeasuredSteps);
  }
  line.bytes_per_token = (of_longer - of_shorter) / static_cast<double>(longer - shorter);
  line.fixed_bytes = of_shorter - line.bytes_per_token * static_cast<double>(shorter);
  line.misfit = (of_checked - line.bytes(kCheckedTokens)) / of_checked;
  return line;
}

double prompt_bytes(const Compressor& compressor, const ModelShape& model, int64_t n_tokens) {
  const auto of_layer = [&](int64_t layer) { return held_bytes(*prompted_cache(compressor, model, layer, n_tokens)); };
  double sum = 0;
  for (const auto& kind : kinds_of(model)) {
    const double first = of_layer(kind.layers.front());
    if (!layers_differ(kind, first, of_layer)) {
      sum += kind.n() * first;
    } else {
      for (const int64_t layer : kind.layers) sum += of_layer(layer);
    }
  }
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
