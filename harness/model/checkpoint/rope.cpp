#include "checkpoint/rope.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace kvc {
namespace {

// Llama 3.1: pairs that turn more than high_freq_factor times within the original context keep their frequency, pairs
// that turn less than low_freq_factor times are slowed down by factor, and those between are interpolated.
float llama3_frequency(float frequency, const RopeConfig& rope) {
  const auto context = static_cast<float>(rope.original_max_position_embeddings);
  const auto low = static_cast<float>(rope.low_freq_factor), high = static_cast<float>(rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
  if (wavelength < context / high) return frequency;
  if (wavelength > context / low) return frequency / factor;
  const float highness = (context / wavelength - low) / (high - low);  // 0 at the low end, 1 at the high one
  return (1 - highness) * frequency / factor + highness * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double power = std::pow(rope.theta, static_cast<double>(2 * i) / static_cast<double>(head_dim));
    float frequency = 1.0f / static_cast<float>(power);
    if (rope.type == RopeType::linear) frequency /= static_cast<float>(rope.factor);
    if (rope.type == RopeType::llama3) frequency = llama3_frequency(frequency, rope);
    if (!rope.divisors.empty()) frequency /= rope.divisors.at(static_cast<size_t>(i));
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable RopeTable::rows(int64_t first, int64_t n) const {
  if (!cos.defined()) return {};
  return {cos.narrow(0, first, n), sin.narrow(0, first, n)};
}

RopeTable RopeTable::to(at::Device device) const {
  if (!cos.defined()) return {};
  return {cos.to(device), sin.to(device)};
}

RopeTable rope_table(std::span<const int64_t> positions, std::span<const float> frequencies) {
  if (frequencies.empty()) return {};
  const auto n_positions = static_cast<int64_t>(positions.size()), half = static_cast<int64_t>(frequencies.size());
  RopeTable table{at::empty({n_positions, half}, at::kFloat), at::empty({n_positions, half}, at::kFloat)};
  float* cos = table.cos.mutable_data_ptr<float>();
  float* sin = table.sin.mutable_data_ptr<float>();
  for (const int64_t position : positions) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      *cos++ = std::cos(angle);
      *sin++ = std::sin(angle);
    }
  }
  return table;
}

}  // namespace kvc
