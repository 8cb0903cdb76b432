// The loops of matrix.h on raw pointers, a token or a vector at a time; no LibTorch. Codes and values do not depend on
// the machine: nothing here fuses a multiplication with an addition.
#pragma once

#include <cstdint>
#include <vector>

namespace kvquant::codec {

// The value at p * (n - 1) of n values in ascending order, between two of them by line. x is reordered.
float quantile(std::vector<float>& x, double p);

struct Bounds {
  float smallest, largest;
};
// Of x [n], what lies strictly between lower and upper; both `lower` where nothing does, or all where lower = upper.
Bounds bounds_between(const float* x, int64_t n, float lower, float upper);

// Whether x is an outlier; with integer codes a threshold itself is one, unless both are the same.
inline bool is_outlier(float x, float lower, float upper, bool uniform) {
  return uniform ? (x >= upper || x <= lower) && upper > lower : x > upper || x < lower;
}

// (x - zero) / scale, finite: 0 where both are 0, +-3e38 where only scale is.
float normalized(float x, float zero, float scale);

}  // namespace kvquant::codec
