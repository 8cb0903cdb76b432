// The plain kernel's formats that are compiled: what is measured against, and one of each kind.
#include "cuda/decode_simt.cuh"

namespace kvc::KVC_DEVICE {

using cuda_cache::Format;
using K16 = Format<16>;
using K4 = Format<4>;
using K2 = Format<2>;
using Kivi4 = Format<4, Axis::tokens>;
using Kivi2 = Format<2, Axis::tokens>;

#define KVC_DECODE(T, K, V, heads, dim) template __global__ void decode_simt<T, K, V, heads, dim>(DecodeArguments<T>)
KVC_DECODE(__half, K16, K16, 1, 128);
KVC_DECODE(__half, K16, K16, 4, 128);
KVC_DECODE(__nv_bfloat16, K16, K16, 4, 128);
KVC_DECODE(__half, K4, K4, 1, 128);
KVC_DECODE(__half, K4, K4, 4, 128);
KVC_DECODE(__half, Kivi4, K4, 4, 128);
KVC_DECODE(__half, Kivi2, K2, 4, 128);
KVC_DECODE(__half, K2, K2, 4, 128);
#undef KVC_DECODE

template __global__ void decode_reduce<__half>(gmem_ptr<const float>, gmem_ptr<const float2>, gmem_ptr<__half>, int,
                                               int, int);
template __global__ void decode_reduce<__nv_bfloat16>(gmem_ptr<const float>, gmem_ptr<const float2>,
                                                      gmem_ptr<__nv_bfloat16>, int, int, int);

}  // namespace kvc::KVC_DEVICE
