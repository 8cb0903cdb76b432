// Products of a few rows with a matrix, and what stands between them, on raw pointers; no LibTorch. A decode step is
// made of them: weights times the batch's rows, keys times queries, attention weights times values. Idea: the matrix is
// read once for all rows, and a row is summed in one order however many rows there are. So a row's bits depend on that
// row alone, and a step of one sequence moves no more memory than it must. Accumulation is fp32.
#pragma once

#include <cstdint>

namespace kvc::kernels {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

// Weights of W are unpacked 64 bytes at a time, in 16 lanes of 4 bytes: lane l of step s is weight l * (4 / sizeof(W))
// + s. The rows of x are laid out alike, in blocks of 64 / sizeof(W) entries, zeros behind the last.
template <class W>
constexpr int64_t block_size() {
  return 64 / sizeof(W);
}
// x [k] -> out [k rounded up to whole blocks]
void interleave(const float* x, int64_t k, int64_t block_size, float* out);

// y[m, n] += sum_k x[m, k] w[n, k] for n in [first, end), in 16 lanes along k that are added by halves.
// x [n_rows, k rounded up] interleaved, w [N, k], y [n_rows, y_stride]; W: float, Bf16, Fp16 (finite values) or int8_t
// (without its scale)
template <class W>
void multiply_rows(const float* x, int64_t n_rows, int64_t k, const W* w, int64_t first, int64_t end, float* y,
                   int64_t y_stride);

// y[m, j] += sum_t x[m, t] w[t, j], token after token.
// x [n_rows, x_stride], w [n_tokens, dim], y [n_rows, y_stride]; W: float, Bf16 or Fp16
template <class W>
void mix_rows(const float* x, int64_t x_stride, int64_t n_rows, const W* w, int64_t n_tokens, int64_t dim, float* y,
              int64_t y_stride);

// x[0, n) -> softmax(x), in place; sums in 16 lanes. sink: null, or a logit that adds e^sink to the denominator.
void softmax(float* x, int64_t n, const float* sink = nullptr);
void softcap(float* x, int64_t n, float cap);  // x -> cap * tanh(x / cap), in place

// Sum of (x - y)^2 in double, in 8 lanes; y null: of x^2.
double sum_of_squares(const float* x, const float* y, int64_t n);

// x[i] = x[i] / (1 + exp(-alpha * x[i])), relative error 1e-6; an entry's bits do not depend on its place.
void silu(float* x, int64_t n, float alpha = 1);
// The same for 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), GELU's approximation.
void gelu_tanh(float* x, int64_t n);

}  // namespace kvc::kernels
