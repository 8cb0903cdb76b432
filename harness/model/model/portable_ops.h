// ops.h by LibTorch's operators: what runs on a GPU, and what the CPU's loops are held against.
#pragma once

#include "checkpoint/rope.h"
#include "model/ops.h"

namespace kvc::portable {

void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps);
at::Tensor linear_rows(const at::Tensor& x, const Linear& w);
void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out);
void rotate_heads_(at::Tensor& merged, int64_t n_heads, int64_t head_dim, const RopeTable& rope);
at::Tensor gated(const at::Tensor& gate_up, Activation activation);
at::Tensor embedding_rows(const at::Tensor& table, std::span<const int64_t> ids, int64_t n_rows);

}  // namespace kvc::portable
