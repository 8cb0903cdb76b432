// The codebook of a non-uniform quantizer: k-means in one dimension, and what Q-Norm does to its centroids.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvquant {

// What codes stand for, [2^b] each, ascending where encoded; both empty where codes are integers.
struct Levels {
  std::vector<float> encode;              // a value's code is the nearest of these
  std::vector<float> decode;              // what it comes back as
  at::Tensor encode_there, decode_there;  // fp32, in place of them where codes lie on a device
};

// 2^bits centroids, ascending, of the values z, by Lloyd's iteration from their quantiles (at most 50 times). weights:
// of z's shape, not negative, or undefined: all alike. Fewer values (with a weight) than centroids: evenly spaced in
// [-1, 1].
std::vector<float> centroids(const at::Tensor& z, int64_t bits, const at::Tensor& weights = {});

// Mean and standard deviation of z, then of z's nearest levels.
struct Moments {
  double mean = 0, deviation = 1, mean_quantized = 0, deviation_quantized = 1;
};
Moments moments_of(const at::Tensor& z, const std::vector<float>& levels);

// Q-Norm: centroids whose codes have the mean and deviation of what was encoded.
std::vector<float> normalized(const std::vector<float>& levels, const Moments& moments);

// How many of the ascending levels' middles lie below z: the code of the nearest level, the lower one on a tie.
inline uint8_t nearest_level(float z, const float* middles, int64_t n_middles) {
  int code = 0;
  for (int64_t i = 0; i < n_middles; ++i) code += middles[i] < z;
  return static_cast<uint8_t>(code);
}
std::vector<float> middles_of(const std::vector<float>& levels);

}  // namespace kvquant
