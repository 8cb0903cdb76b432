// What tests launch: the same for each of two devices, the CPU (thread by thread) and a GPU. Pointers are to memory
// that host and kernels both reach (reach); a GPU's kernels are over once wait() has returned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvc::tested {

struct Memory {
  void (*choose)(int device);
  void* (*reach)(std::size_t bytes);  // throws std::runtime_error where there is none
  void (*give_back)(void* reached);
  void (*wait)();  // throws std::runtime_error, what a kernel did wrong
};

// Small kernels that are right; sample_kernels.cu says what each does.
struct SampleKernels {
  void (*block_sums)(const float* in, float* sums, int per_block, int blocks);
  void (*warp_scan)(const int* in, int* out);
  void (*block_votes)(const int* in, int* counts, int n);
  void (*pipelined_sum)(const float* in, float* out, int tiles);
  // a, b: fp16
  void (*matrix_product)(const void* a, const void* b, float* c, int rows, int columns, int depth, bool b_transposed);
  void (*histogram)(const int* in, int* counts, int n, int bins);
  void (*pairs_through_named_barriers)(const int* in, int* out);
};

// Each function of device.cuh that is an instruction, by one warp; instructions.cu.
struct Instructions {
  // Registers by lane: a [32, 4], b [32, 2], sums [32, 4], added to.
  void (*mma_f16)(const unsigned* a, const unsigned* b, float* sums);
  void (*mma_bf16)(const unsigned* a, const unsigned* b, float* sums);
  void (*mma_s8)(const unsigned* a, const unsigned* b, int* sums);
  // out [32, count]: of matrices whose numbers are 64 matrix + 8 row + column; count: 1, 2, 4
  void (*ldmatrix)(int count, bool transposed, unsigned* out);
  void (*movmatrix)(unsigned* pairs);  // [32]
  // to [32, bytes]: what lane l copied of from [32, bytes] through shared memory that held 0xff; bytes: 4, 8, 16
  void (*cp_async)(int bytes, const unsigned char* from, int filled, unsigned char* to);
  void (*of_bits)(unsigned a, unsigned b, unsigned c, unsigned* out);  // [kOfBits], in instructions.cu's order
  void (*exp2_approx)(const float* x, float* out);                     // [32]
};
constexpr int kOfBits = 14;

}  // namespace kvc::tested

namespace kvc::cuda {  // where nvcc compiled them (KVC_HAVE_CUDA)
const tested::Memory& memory();
const tested::SampleKernels& sample_kernels();
const tested::Instructions& instructions();
}  // namespace kvc::cuda
namespace kvc::cuda_emulated {
const tested::Memory& memory();
const tested::SampleKernels& sample_kernels();
const tested::Instructions& instructions();
}  // namespace kvc::cuda_emulated
