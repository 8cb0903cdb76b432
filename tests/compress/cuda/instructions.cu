#include "cuda/device.cuh"
#include "tested_kernels.h"

namespace kvc::KVC_DEVICE {
namespace {

enum class Product { f16, bf16, s8 };

template <Product product, class Sum>
__global__ void product_kernel(gmem_ptr<const unsigned> a, gmem_ptr<const unsigned> b, gmem_ptr<Sum> sums) {
  const int lane = threadIdx.x;
  Sum sum[4];
  unsigned of_a[4], of_b[2];
  for (int i = 0; i < 4; ++i) {
    of_a[i] = a[lane * 4 + i];
    sum[i] = sums[lane * 4 + i];
  }
  for (int i = 0; i < 2; ++i) {
    of_b[i] = b[lane * 2 + i];
  }
  if constexpr (product == Product::f16) {
    mma_f16(sum, of_a, of_b);
  } else if constexpr (product == Product::bf16) {
    mma_bf16(sum, of_a, of_b);
  } else {
    mma_s8(sum, of_a, of_b);
  }
  for (int i = 0; i < 4; ++i) {
    sums[lane * 4 + i] = sum[i];
  }
}

template <Product product, class Sum>
void multiply(const unsigned* a, const unsigned* b, Sum* sums) {
  KVC_LAUNCH((product_kernel<product, Sum>), dim3(1), dim3(32), 0, nullptr, checked(a, 128), checked(b, 64),
             checked(sums, 128));
}

template <int Count, bool Transposed>
__global__ void load_kernel(gmem_ptr<unsigned> out) {
  KVC_SHARED(uint4, rows, 32);
  const smem_ptr<unsigned short> numbers = pointer_cast<unsigned short>(rows);
  for (int i = threadIdx.x; i < 256; i += 32) {
    numbers[i] = static_cast<unsigned short>(i);
  }
  __syncwarp();
  unsigned to[Count];
  if constexpr (Transposed) {
    ldmatrix_trans<Count>(to, rows + threadIdx.x % (8 * Count));
  } else {
    ldmatrix<Count>(to, rows + threadIdx.x % (8 * Count));
  }
  for (int i = 0; i < Count; ++i) {
    out[threadIdx.x * Count + i] = to[i];
  }
}

template <int Count>
void load(bool transposed, unsigned* out) {
  const dim3 one(1), warp(32);
  if (transposed) {
    KVC_LAUNCH((load_kernel<Count, true>), one, warp, 0, nullptr, checked(out, 32 * Count));
  } else {
    KVC_LAUNCH((load_kernel<Count, false>), one, warp, 0, nullptr, checked(out, 32 * Count));
  }
}

void load_any(int count, bool transposed, unsigned* out) {
  count == 1 ? load<1>(transposed, out) : count == 2 ? load<2>(transposed, out) : load<4>(transposed, out);
}

__global__ void turn_kernel(gmem_ptr<unsigned> pairs) {
  const unsigned pair = pairs[threadIdx.x];
  pairs[threadIdx.x] = movmatrix_trans(pair);
}

void turn(unsigned* pairs) { KVC_LAUNCH(turn_kernel, dim3(1), dim3(32), 0, nullptr, checked(pairs, 32)); }

template <int Bytes>
__global__ void copy_kernel(gmem_ptr<const unsigned char> from, int filled, gmem_ptr<unsigned char> to) {
  KVC_SHARED(uint4, places, 32);
  const smem_ptr<unsigned char> bytes = pointer_cast<unsigned char>(places);
  const int first = threadIdx.x * Bytes;
  for (int i = 0; i < Bytes; ++i) {
    bytes[first + i] = 0xff;
  }
  cp_async<Bytes>(bytes + first, from + first, filled);
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < Bytes; ++i) {
    const unsigned char byte = bytes[first + i];
    to[first + i] = byte;
  }
}

template <int Bytes>
void copy(const unsigned char* from, int filled, unsigned char* to) {
  KVC_LAUNCH((copy_kernel<Bytes>), dim3(1), dim3(32), 0, nullptr, checked(from, 32 * Bytes), filled,
             checked(to, 32 * Bytes));
}

void copy_any(int bytes, const unsigned char* from, int filled, unsigned char* to) {
  bytes == 4 ? copy<4>(from, filled, to) : bytes == 8 ? copy<8>(from, filled, to) : copy<16>(from, filled, to);
}

__global__ void of_bits_kernel(unsigned a, unsigned b, unsigned c, gmem_ptr<unsigned> out) {
  const unsigned all[tested::kOfBits] = {lop3<0xC0>(a, b, c),
                                         lop3<0xFE>(a, b, c),
                                         lop3<0x96>(a, b, c),
                                         lop3<0xEA>(a, b, c),
                                         lop3<0x1A>(a, b, c),
                                         prmt(a, b, 0x3210),
                                         prmt(a, b, 0x7654),
                                         prmt(a, b, 0x0246),
                                         prmt(a, b, 0xCA80),
                                         __byte_perm(a, b, 0xFEDC),
                                         static_cast<unsigned>(__dp4a(0x01FF02FE, 0x03040506, 10)),
                                         __brev(a),
                                         __funnelshift_r(a, b, 8),
                                         __funnelshift_l(a, b, 8)};
  for (int i = 0; i < tested::kOfBits; ++i) {
    out[i] = all[i];
  }
}

void of_bits(unsigned a, unsigned b, unsigned c, unsigned* out) {
  KVC_LAUNCH(of_bits_kernel, dim3(1), dim3(1), 0, nullptr, a, b, c, checked(out, tested::kOfBits));
}

__global__ void exp2_kernel(gmem_ptr<const float> x, gmem_ptr<float> out) {
  out[threadIdx.x] = exp2_approx(x[threadIdx.x]);
}

void exp2_of(const float* x, float* out) {
  KVC_LAUNCH(exp2_kernel, dim3(1), dim3(32), 0, nullptr, checked(x, 32), checked(out, 32));
}

#ifdef __CUDACC__

void expect(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void choose(int device) { expect(cudaSetDevice(device)); }
void* reach(std::size_t bytes) {  // the host's, whose address is the kernels' too
  void* reached = nullptr;
  expect(cudaHostAlloc(&reached, bytes, cudaHostAllocDefault));
  return reached;
}
void give_back(void* reached) { cudaFreeHost(reached); }
void wait() { expect(cudaDeviceSynchronize()); }

#else

void choose(int) {}
void* reach(std::size_t bytes) { return ::operator new(bytes); }
void give_back(void* reached) { ::operator delete(reached); }
void wait() {}

#endif

}  // namespace

const tested::Memory& memory() {
  static constexpr tested::Memory made{choose, reach, give_back, wait};
  return made;
}

const tested::Instructions& instructions() {
  static constexpr tested::Instructions made{multiply<Product::f16, float>,
                                             multiply<Product::bf16, float>,
                                             multiply<Product::s8, int>,
                                             load_any,
                                             turn,
                                             copy_any,
                                             of_bits,
                                             exp2_of};
  return made;
}

}  // namespace kvc::KVC_DEVICE
