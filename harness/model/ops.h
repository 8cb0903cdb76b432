// The decoder's arithmetic beside attention. Sums run in fp32 or wider whatever the type of x is, and the bits of a row
// depend on nothing but that row: not on the other rows, their number, or the thread count.
// Written as loops on raw pointers: a decode step of a small model would otherwise spend its time in dispatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvc {

// Every matrix product has this many rows (or one): a row's bits must not depend on how many rows came with it.
inline constexpr int64_t kRowBucket = 64;

// x / sqrt(mean(x^2) + eps) * weight, by row. x [T, N] of any type, weight [N] fp32 -> [T, N] of x's type
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// x w^T: x [T, K], w [N, K] -> [T, N]. T is 1 or kRowBucket.
at::Tensor linear_rows(const at::Tensor& x, const at::Tensor& w);

// cos and sin of position * theta^(-2i/D), i < D/2, rounded as Hugging Face rounds them.
struct RopeTable {
  at::Tensor cos;  // [T, D/2] fp32
  at::Tensor sin;  // [T, D/2] fp32
};
RopeTable rope_table(int64_t first_position, int64_t n_positions, int64_t head_dim, double theta);

// Takes heads first_head ... first_head+H-1 out of merged rows, rotates them where `rope` is given (channel i with
// channel i + D/2), and writes them to tokens first_token ... of out.
// merged [T, n*D]; rope: tables of these T positions or null; out [H, T_out, D] of the same type
void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable* rope, int64_t first_token,
                  at::Tensor& out);

// silu(gate) * up: gate_up [T, 2F], gate first -> [T, F]
at::Tensor silu_times(const at::Tensor& gate_up);

}  // namespace kvc
