// The decoder's arithmetic beside attention. Sums run in fp32 or wider whatever the type of x is, and the bits of a row
// depend on nothing but that row: not on the other rows, their number, or the thread count.
// On the CPU they are loops on raw pointers (a decode step of a small model would otherwise spend its time in
// dispatch), elsewhere LibTorch's operators (portable_ops.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/architecture.h"
#include "checkpoint/tensor_source.h"

namespace kvc {

// Rows of a prompt's matrix products, and on a GPU of all: a row's bits must not depend on how many came with it.
inline constexpr int64_t kRowBucket = 64;
// Rows of a prompt that go through a layer together: whole buckets.
inline constexpr int64_t kRowRun = 4 * kRowBucket;

struct Linear {
  // [N, K] of the model's type, or codes: int8, or [N, ceil(K/2)] bytes of two each; undefined where there are blocks
  at::Tensor weight;
  at::Tensor bias;                // [N] of the model's type, or undefined
  at::Tensor scale;               // [N] fp32, or [N, K / group_size]: of codes; undefined without them
  int64_t n_columns = 0;          // K of codes and of blocks
  int64_t input_bits = 0;         // x is rounded to so many bits before the product, token by token; 0: not at all
  std::vector<BlockRows> blocks;  // on the CPU: the rows as a file holds them, one run below the other
};

// Whether there is a matrix.
bool is_defined(const Linear& w);
int64_t n_rows_of(const Linear& w);     // N
int64_t n_columns_of(const Linear& w);  // K
at::Device device_of(const Linear& w);

struct Norm {
  at::Tensor weight;  // [N] fp32
  at::Tensor bias;    // [N] fp32, or undefined
  bool wide = false;  // RMSNorm: the product with the weights is in fp32; else of numbers rounded to x's type
};

// By row: (x - mean(x)) / sqrt(var(x) + eps) * weight + bias where there is a bias (LayerNorm), else
// x / sqrt(mean(x^2) + eps) * weight (RMSNorm). x [T, N] of any type -> [T, N] of x's type
at::Tensor normalize(const at::Tensor& x, const Norm& norm, double eps);

// RMSNorm of each of the heads first_head ... first_head+H-1 in merged rows. merged [T, n*D]; weight [D] fp32
void normalize_heads_(at::Tensor& merged, int64_t first_head, int64_t n_heads, const at::Tensor& weight, double eps);

// x w^T + bias, a prompt's rows: x [T, K], T a multiple of kRowBucket, w without codes -> [T, N]. Of blocks, some
// thousand rows are floats of x's type at a time.
at::Tensor linear_buckets(const at::Tensor& x, const Linear& w);
// The same for the rows of a decode step, one for each sequence: x [B, K] -> [B, N]. Reads the weights once.
at::Tensor linear_rows(const at::Tensor& x, const Linear& w);

struct RopeTable;

// Takes heads first_head ... first_head+H-1 out of merged rows, rotates them where the table says so (channel i with
// channel i + R/2, R/2 being the table's columns; the channels from R on stay), and writes them to tokens first_token
// ... of out.
// merged [T, n*D]; rope: table of these T positions; out [H, T_out, D] of the same type
void split_heads_(const at::Tensor& merged, int64_t first_head, const RopeTable& rope, int64_t first_token,
                  at::Tensor& out);

// Rotates heads 0 ... H-1 of merged rows where they stand. merged [T, n*D]; rope: table of these T positions
void rotate_heads_(at::Tensor& merged, int64_t n_heads, int64_t head_dim, const RopeTable& rope);

// activation(gate) * up: gate_up [T, 2F], gate first -> [T, F]
at::Tensor gated(const at::Tensor& gate_up, Activation activation);
// (up + 1) * gate * sigmoid(alpha * gate) with gate at most `limit`, up within it
at::Tensor clamped_gated(const at::Tensor& gate_up, double alpha, double limit);

// Rows `ids` of table [V, E] -> [n_rows, E], zeros behind them. The ids are valid.
at::Tensor embedding_rows(const at::Tensor& table, std::span<const int64_t> ids, int64_t n_rows);
// The same of a table that may be in blocks, in `type`.
at::Tensor embedding_rows(const Linear& table, std::span<const int64_t> ids, int64_t n_rows, at::ScalarType type);

}  // namespace kvc
