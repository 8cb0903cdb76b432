#include "checkpoint/rope.h"

#include <ATen/ATen.h>

#include <algorithm>
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

// YaRN: pairs that turn more than beta_fast times within the original context keep their frequency, pairs that turn less
// than beta_slow times are slowed down by factor, and those between are interpolated by their index.
class YarnRamp {
 public:
  YarnRamp(const RopeConfig& rope, int64_t n_channels) {
    const auto dim = static_cast<double>(n_channels),
               context = static_cast<double>(rope.original_max_position_embeddings);
    const auto pair_that_turns = [&](double n_turns) {
      return dim * std::log(context / (n_turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
    };
    double low = pair_that_turns(rope.beta_fast), high = pair_that_turns(rope.beta_slow);
    if (rope.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, dim - 1);
    if (low == high) high += 0.001;
    low_ = static_cast<float>(low), width_ = static_cast<float>(high - low);
  }
  // 0 where the frequency is kept, 1 where it is divided by factor
  float at(int64_t pair) const { return std::clamp((static_cast<float>(pair) - low_) / width_, 0.f, 1.f); }

 private:
  float low_ = 0, width_ = 1;
};

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

}  // namespace

int64_t n_rotated_channels(const RopeConfig& rope, int64_t head_dim) {
  const auto n = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
  return (n + 1) / 2 * 2;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  if (mscale == 0 || mscale_all_dim == 0) return yarn_mscale(factor, 1);
  return yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all_dim);
}

double longrope_attention_factor(double factor, int64_t original_max_position_embeddings) {
  if (factor <= 1) return 1;
  return std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_max_position_embeddings)));
}

std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t head_dim) {
  const int64_t n_channels = n_rotated_channels(rope, head_dim);
  const YarnRamp ramp(rope, n_channels);
  const auto factor = static_cast<float>(rope.factor);
  std::vector<float> frequencies;
  for (int64_t i = 0; i < n_channels / 2; ++i) {
    const double power = std::pow(rope.theta, static_cast<double>(2 * i) / static_cast<double>(n_channels));
    const auto wavelength = static_cast<float>(power);
    float frequency = 1.0f / wavelength;
    if (rope.type == RopeType::linear) frequency /= factor;
    if (rope.type == RopeType::llama3) frequency = llama3_frequency(frequency, rope);
    if (rope.type == RopeType::yarn) {
      const float kept = 1 - ramp.at(i);
      frequency = 1.0f / (factor * wavelength) * (1 - kept) + frequency * kept;
    }
    if (rope.type == RopeType::longrope) {
      frequency = 1.0f / (rope.divisors.at(static_cast<size_t>(i)) * wavelength);
    } else if (!rope.divisors.empty()) {
      frequency /= rope.divisors.at(static_cast<size_t>(i));
    }
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

RopeTable rope_table(std::span<const int64_t> positions, std::span<const float> frequencies, double attention_factor) {
  if (frequencies.empty()) return {};
  const auto n_positions = static_cast<int64_t>(positions.size()), half = static_cast<int64_t>(frequencies.size());
  RopeTable table{at::empty({n_positions, half}, at::kFloat), at::empty({n_positions, half}, at::kFloat)};
  const auto scale = static_cast<float>(attention_factor);
  float* cos = table.cos.mutable_data_ptr<float>();
  float* sin = table.sin.mutable_data_ptr<float>();
  for (const int64_t position : positions) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      *cos++ = std::cos(angle) * scale;
      *sin++ = std::sin(angle) * scale;
    }
  }
  return table;
}

}  // namespace kvc
