// The formats of attend_codes that are compiled, a file for each head_dim.
#pragma once

#include "cuda/attend_codes.cuh"

namespace kvc::KVC_DEVICE {

// What one launch is told beside its table.
struct AttendLaunch {
  int bits, n_segments, most_splits, n_kv, group;
  bool bf16, along_tokens;  // of 16 bits; K's codes
  cudaStream_t stream;
};

template <int kDim>
void launch_attend(const Segments& segments, const AttendLaunch& how);

template <class T, class KFormat, class VFormat, int kHeads, int kDim>
void launch_format(const Segments& segments, const AttendLaunch& how) {
  const auto chunks = static_cast<unsigned>((how.group + kHeads - 1) / kHeads);
  const dim3 grid(static_cast<unsigned>(how.most_splits), static_cast<unsigned>(how.n_kv) * chunks,
                  static_cast<unsigned>(how.n_segments));
  KVC_LAUNCH((attend_codes<T, KFormat, VFormat, kHeads, kDim>), grid, dim3(kThreads), 0, how.stream, segments,
             how.group);
}

template <int kHeads, int kDim>
void launch_heads(const Segments& segments, const AttendLaunch& how) {
  const auto run = [&]<class T, class KFormat, class VFormat>() {
    launch_format<T, KFormat, VFormat, kHeads, kDim>(segments, how);
  };
  const auto run_bits = [&]<int kBits>() {
    if constexpr (kBits < 8 && kHeads == 8 && kDim != 96) {  // the others would spill registers
      if (how.along_tokens) return run.template operator()<__half, Format<kBits, true>, Format<kBits>>();
    }
    run.template operator()<__half, Format<kBits>, Format<kBits>>();
  };
  if (how.bits == 16 && how.bf16) return run.template operator()<__nv_bfloat16, Format<16>, Format<16>>();
  if (how.bits == 16) return run_bits.template operator()<16>();
  if (how.bits == 8) return run_bits.template operator()<8>();
  if (how.bits == 4) return run_bits.template operator()<4>();
  if constexpr (kDim != 96) run_bits.template operator()<2>();
}

}  // namespace kvc::KVC_DEVICE
