// The tensor-core kernel's formats that are compiled: 16 bits to compare with, 4 and 2 bits of both kinds of groups.
#include "cuda/decode_mma.cuh"

namespace kvc::KVC_DEVICE {

using cuda_cache::Format;
using K16 = Format<16>;
using K4 = Format<4>;
using K2 = Format<2>;
using Kivi4 = Format<4, Axis::tokens>;
using Kivi2 = Format<2, Axis::tokens>;

#define KVC_DECODE(T, K, V, heads, dim) template __global__ void decode_mma<T, K, V, heads, dim>(DecodeArguments<T>)
KVC_DECODE(__half, K16, K16, 8, 128);
KVC_DECODE(__nv_bfloat16, K16, K16, 8, 128);
KVC_DECODE(__half, K4, K4, 8, 128);
KVC_DECODE(__half, K4, K4, 16, 128);
KVC_DECODE(__half, K2, K2, 8, 128);
KVC_DECODE(__half, Kivi4, K4, 8, 128);
KVC_DECODE(__half, Kivi2, K2, 8, 128);
KVC_DECODE(__half, K4, K4, 8, 64);
#undef KVC_DECODE

}  // namespace kvc::KVC_DEVICE
