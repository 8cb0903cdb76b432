// attend_codes with head_dim 128; up to 16 query heads of a KV head are taken at once, so that codes are read once, but
// where K lies along tokens.
#include "cuda/attend_launch.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<128>(const Segments& segments, const AttendLaunch& how) {
  how.group > 8 && !how.along_tokens ? launch_heads<16, 128>(segments, how) : launch_heads<8, 128>(segments, how);
}

}  // namespace kvc::KVC_DEVICE
