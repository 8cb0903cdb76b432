// The decoder's arithmetic beside attention. Sums run in fp32 or wider whatever the type of x is, and the bits of a row
// depend on nothing but that row: not on the other rows, their number, or the thread count.
// Written as loops on raw pointers: a decode step of a small model would otherwise spend its time in dispatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvc {

// Every matrix product has this many rows (or one): a row's bits must not depend on how many rows came with it.
inline constexpr int64_t kRowBucket = 64;

struct Linear {
  at::Tensor weight;  // [N, K]
  at::Tensor bias;    // [N] of the same type, or undefined
};

struct Norm {
  at::Tensor weight;  // [N] fp32
  at::Tensor bias;    // [N] fp32, or undefined
};

// By row: (x - mean(x)) / sqrt(var(x) + eps) * weight + bias where there is a bias (LayerNorm), else
// x / sqrt(mean(x^2) + eps) * weight (RMSNorm). x [T, N] of any type -> [T, N] of x's type
at::Tensor normalize(const at::Tensor& x, const Norm& norm, double eps);

// RMSNorm of each of the heads first_head ... first_head+H-1 in merged rows. merged [T, n*D]; weight [D] fp32
void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps);

// x w^T + bias: x [T, K] -> [T, N]. T is 1 or kRowBucket.
at::Tensor linear_rows(const at::Tensor& x, const Linear& w);

struct RopeTable;

// Takes heads first_head ... first_head+H-1 out of merged rows, rotates them where the table says so (channel i with
// channel i + D/2), and writes them to tokens first_token ... of out.
// merged [T, n*D]; rope: table of these T positions; out [H, T_out, D] of the same type
void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out);

// silu(gate) * up: gate_up [T, 2F], gate first -> [T, F]
at::Tensor silu_times(const at::Tensor& gate_up);

}  // namespace kvc
