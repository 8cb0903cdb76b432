// Rotary positions: the frequency of each pair of channels, and the table of one stretch of positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvc {

enum class RopeType { plain, linear, llama3, yarn, longrope };  // "default", "linear", ... in config.json

struct RopeConfig {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  double factor = 1.0;  // linear, llama3 and yarn: low frequencies are divided by it, in linear all
  // llama3: turns within the original context up to which a frequency is low, and from which on it is high
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  // yarn: turns within the original context from which on a frequency is kept, and up to which it is divided
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;                // yarn: the pairs where these begin are rounded to whole ones
  double attention_factor = 1.0;       // cos and sin of queries and keys are multiplied by it: yarn, longrope
  double partial_rotary_factor = 1.0;  // share of a head's channels that are rotated, the first ones
  // Of each pair's frequency: longrope's factors, and llama3's scaling as GGUF files hold it; {}: none
  std::vector<float> divisors = {};
  std::vector<float> short_divisors = {};  // longrope: those of texts within the original context

  bool operator==(const RopeConfig&) const = default;
};

// R: channels i and i + R/2 of a head are rotated for i < R/2. Even, at most head_dim.
int64_t n_rotated_channels(const RopeConfig& rope, int64_t head_dim);

// Radians per position of channel pair i: theta^(-2i/R), scaled; [R/2], rounded as Hugging Face rounds.
std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t head_dim);

// yarn's factor of cos and sin, for scaling by `factor`; mscale and mscale_all_dim: 0 where they are not given
double yarn_attention_factor(double factor, double mscale = 0, double mscale_all_dim = 0);
// longrope's, for a context that was stretched by `factor`
double longrope_attention_factor(double factor, int64_t original_max_position_embeddings);

// cos and sin of position * frequency, times the attention factor.
struct RopeTable {
  at::Tensor cos;  // [T, R/2] fp32; undefined in a table that rotates nothing
  at::Tensor sin;  // [T, R/2] fp32

  RopeTable rows(int64_t first, int64_t n) const;
  RopeTable to(at::Device device) const;
};
// A row for each position. Without frequencies: a table that rotates nothing.
RopeTable rope_table(std::span<const int64_t> positions, std::span<const float> frequencies,
                     double attention_factor = 1.0);

}  // namespace kvc
