#pragma once
// Small kernels that are right; sample_kernels.cu says what each does. Compiled for both, run on the CPU.

#include "cuda/device.cuh"

namespace kvc::KVC_DEVICE {

void block_sums(const float* in, float* sums, int per_block, int blocks);
void warp_scan(const int* in, int* out);
void block_votes(const int* in, int* counts, int n);
void pipelined_sum(const float* in, float* out, int tiles);
void matrix_product(const half* a, const half* b, float* c, int rows, int columns, int depth, bool b_transposed);
void histogram(const int* in, int* counts, int n, int bins);
void pairs_through_named_barriers(const int* in, int* out);

}  // namespace kvc::KVC_DEVICE
