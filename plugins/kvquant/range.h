// What vectors are quantized with: a zero and a scale each, and thresholds beyond which entries are outliers.
#pragma once

#include <ATen/ATen.h>
#include <kvc/quant/precision.h>

#include <cstdint>

namespace kvquant {

struct Format {
  int64_t bits = 4;
  bool uniform = false;    // integer codes
  double sparsity = 0.01;  // fraction of outliers, half on either side
  kvc::Precision precision = kvc::Precision::real;
};

// What n vectors are quantized with, [n] fp32 each.
struct Range {
  at::Tensor lower, upper;  // outliers lie beyond; -inf and inf without outliers
  at::Tensor zero, scale;   // as they are stored: rounded to fp16 with Precision::real
};

// The range of each row of x [n, len] fp32, contiguous, len >= 1; the same on any device.
Range range_of_rows(const at::Tensor& x, const Format& format);

// A range without thresholds of its own, for vectors that were not there when it was made: what lies outside is an
// outlier; an integer code may leave it by half a step.
Range widened(const Range& range, const Format& format);

enum class Axis { channels, tokens };  // what a range belongs to: K's columns or V's rows

// (x - zero) / scale of the entries of x [t, m] that are no outliers and whose vector has an extent, and their weights:
// on the CPU, wherever x lies.
struct Normalized {
  at::Tensor z, weights;  // fp32; weights undefined where none were given
};
Normalized normalized_inside(const at::Tensor& x, const Range& range, Axis axis, const Format& format,
                             const at::Tensor& weights = {});

// x as it comes back from storage.
inline float rounded(float x, kvc::Precision precision) {
  return precision == kvc::Precision::real ? static_cast<float>(at::Half(x)) : x;
}

// A range's tables as they are read for entry (token, channel).
struct Table {
  const float *lower, *upper, *zero, *scale;
  int64_t by_token, by_channel;
  Table(const Range& range, Axis axis)
      : lower(range.lower.const_data_ptr<float>()),
        upper(range.upper.const_data_ptr<float>()),
        zero(range.zero.const_data_ptr<float>()),
        scale(range.scale.const_data_ptr<float>()),
        by_token(axis == Axis::tokens),
        by_channel(axis == Axis::channels) {}
  int64_t at(int64_t t, int64_t j) const { return t * by_token + j * by_channel; }
};

}  // namespace kvquant
