// The formats that encode_pages is compiled for: those of decode_mma.cu.
#include "cuda/encode.cuh"

namespace kvc::KVC_DEVICE {

using cuda_cache::Format;

#define KVC_ENCODE(bits, axis, dim) \
  template __global__ void encode_pages<__half, Format<bits, axis>, dim>(EncodeArguments<__half>)
KVC_ENCODE(4, Axis::channels, 128);
KVC_ENCODE(2, Axis::channels, 128);
KVC_ENCODE(4, Axis::tokens, 128);
KVC_ENCODE(2, Axis::tokens, 128);
KVC_ENCODE(4, Axis::channels, 64);
#undef KVC_ENCODE

}  // namespace kvc::KVC_DEVICE
