// What oscar learns from texts: one rotation of keys and one of values for each layer, from covariances over all KV
// heads h of a layer, in fp64 (T tokens, G query heads a KV head, Q of all G*T queries of the head):
//   A_h = Q^T Q / (G T)                          of K: the mean of A_h
//   w_t = k_t A_h k_t^T, times T over their sum  of V: the mean of sum_t w_t v_t^T v_t / T
//   rotation = R H P   R: eigenvectors in columns, H: Hadamard over sqrt(D), P: columns in bit-reversed order, the one
//                      of the largest eigenvalue first
#pragma once

#include <kvc/calibration.h>

#include <memory>

namespace oscar {

// Of a covariance [D, D] fp64 -> [D, D] fp64. An eigenvector's sign: its entry of largest size is positive.
at::Tensor rotation_of(const at::Tensor& covariance);

// The tensors it gives: k.rotation, v.rotation [L, D, D] fp32; rows are rotated by x -> x rotation.
std::unique_ptr<kvc::Calibrator> make_calibrator(const kvc::ModelShape& model);

// The tensor of that name, [L, D, D]. Throws Error where it is absent, of another shape, or no rotations.
at::Tensor rotations_from(const kvc::NamedTensors& tensors, const char* name, const kvc::ModelShape& model);

}  // namespace oscar
