// Rotary positions: the frequency of each pair of channels, and the table of one stretch of positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvc {

enum class RopeType { plain, linear, llama3 };  // "default", "linear", "llama3" in config.json

struct RopeConfig {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  double factor = 1.0;  // linear and llama3: low frequencies are divided by it, in linear all
  // llama3: turns within the original context up to which a frequency is low, and from which on it is high
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  std::vector<float> divisors = {};  // of each pair's frequency, as GGUF files hold llama3's scaling; {}: none
};

// Radians per position of channel pair i: theta^(-2i/D), scaled; [D/2], rounded as Hugging Face rounds.
std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t head_dim);

// cos and sin of position * frequency.
struct RopeTable {
  at::Tensor cos;  // [T, D/2] fp32; undefined in a table that rotates nothing
  at::Tensor sin;  // [T, D/2] fp32

  RopeTable rows(int64_t first, int64_t n) const;
  RopeTable to(at::Device device) const;
};
// A row for each position. Without frequencies: a table that rotates nothing.
RopeTable rope_table(std::span<const int64_t> positions, std::span<const float> frequencies);

}  // namespace kvc
