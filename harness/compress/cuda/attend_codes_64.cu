// attend_codes with head_dim 64.
#include "cuda/attend_launch.cuh"

namespace kvc::KVC_DEVICE {

template <>
void launch_attend<64>(const Segments& segments, const AttendLaunch& how) {
  launch_heads<8, 64>(segments, how);
}

}  // namespace kvc::KVC_DEVICE
