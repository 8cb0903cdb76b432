// QJL's sketch of a run of keys: signs of projections and norms, from which only inner products are estimated.
// Outlier channels (C of them, for a head and a group of g tokens, or for the head once and for all) are sketched apart
// from the rest, by the first m_o columns of the same projection S [D, m]:
//   <q, k> ~ sqrt(pi/2) (|k_in|/m    <S^T q_in, sign(S^T k_in)>
//                      + |k_out|/m_o <(S^T q_out)_{1..m_o}, sign((S^T k_out)_{1..m_o})>)
// where x_out is x at the outlier channels and 0 elsewhere, x_in the rest. The estimate is linear in q: it equals
// <q, k^> with
//   k^ = sqrt(pi/2) (|k_in|/m mask_in * S sign(.) + |k_out|/m_o mask_out * S_{1..m_o} sign(.)),
// which is unbiased and too long. Nearest to k, by least squares over directions that are uniform, those of k_in in all
// D channels (its few empty ones are masked, so that one W serves all groups) and those of k_out in the outlier
// channels:
//   k~ = |k_in| mask_in * W sign(.) + |k_out| W_out sign(.),   W = a (a^2 S~ S~^T + (1 - a^2) d I)^-1 S~
// with S~ the rows of S (of S_{1..m_o} those at the outlier channels), columns stretched to length sqrt(d), d the
// number of rows, and a = sqrt(2/pi) (1 + 1/(4d)): derived at kvc::least_squares_of_signs. Without outliers, of
// orthogonal blocks with D a divisor of m,
//   k~ = c/(sqrt(pi/2)/m) k^,  c = a/(a^2 m + (1 - a^2) D) ~ sqrt(2/pi)/(D + (m - D) 2/pi),
//   E|k - k~|^2/|k|^2 = (1 - a^2) D/(a^2 m + (1 - a^2) D), where k^ has about (1 - a^2) D/(a^2 m).
#pragma once

#include <kvc/quant/compressed_attention.h>
#include <kvc/quant/precision.h>
#include <kvc/quant/projection.h>

namespace qjl {

struct SketchFormat {
  int64_t n_signs = 256;          // m
  int64_t n_outlier_signs = 256;  // m_o; not used without outliers
  int64_t n_outlier_channels = 8;
  int64_t group_size = 32;  // tokens that choose their outlier channels together
  kvc::Precision precision = kvc::Precision::real;
};

// x: [H, T, D] fp32 -> [H, T/group_size, C] u8: the channels of greatest norm over each group, greatest first.
at::Tensor outlier_channels(const at::Tensor& x, int64_t group_size, int64_t n_channels);

struct KeySketch {
  at::Tensor signs, outlier_signs;  // [H, T, m/32], [H, T, m_o/32] int32
  at::Tensor norms, outlier_norms;  // [H, T] fp16 or fp32: |k_in|, |k_out|
  at::Tensor channels;              // [H, T/g, C] u8; undefined where the cache fixed them, or there are none
  int64_t n_tokens() const { return signs.size(1); }
  void add_to(kvc::Footprint& bytes) const;
};

struct Sketches {
  at::Tensor keys;      // S [D, m]
  at::Tensor outliers;  // [D, m_o]: its first columns, or a projection of their own
};

// k: [H, T, D] fp32; fixed: undefined, or the channels of every group, [H, 1, C].
KeySketch sketch_keys(const at::Tensor& k, const Sketches& s, const SketchFormat& format, const at::Tensor& fixed);

// k~ [H, T, D] fp32.
at::Tensor nearest_keys(const KeySketch& keys, const Sketches& s, const SketchFormat& format, const at::Tensor& fixed);

// k^ [H, T, D] fp32.
at::Tensor linear_functionals(const KeySketch& keys, const Sketches& s, const SketchFormat& format,
                              const at::Tensor& fixed);

// S^T q: q [H_q, D] -> [H_q, m] fp32, once for all keys.
at::Tensor projected(const at::Tensor& q, const Sketches& s);

// Estimates of q [H_q, D] with every key, [H_q, T] fp32.
at::Tensor estimate_scores(const at::Tensor& q, const at::Tensor& projected, const KeySketch& keys, const Sketches& s,
                           const SketchFormat& format, const at::Tensor& fixed);

}  // namespace qjl
