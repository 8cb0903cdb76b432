// The optimal quantizer of one coordinate of a random direction.
#pragma once

#include <cstdint>
#include <vector>

namespace turboquant {

struct Quantizer {
  std::vector<double> levels;  // 2^b, ascending, symmetric about 0
  double error;                // mean squared
};

// Lloyd-Max levels for x = sqrt(d) u_1, u uniform on the unit sphere in d dimensions: density proportional to
// (1 - x^2/d)^((d-3)/2) on |x| < sqrt(d), which tends to N(0, 1). d = 0: N(0, 1) itself; else d >= 3. Exact but for
// the rounding of double: each level is the mean of its cell, each border the middle of two levels.
Quantizer lloyd_max(int64_t bits, int64_t d);

}  // namespace turboquant
